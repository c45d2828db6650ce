package sql_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// When it took 100 times as long, the page of an entity with 8,000 lines ended with 503.
// Each line depends on n, because a constant would be read once.
func TestALineOfATraceIsReadAboutAsFastAsItIsDecoded(t *testing.T) {
	pgtest.NotOnCitus(t, "the name of a runner is asked for anew for each line")
	t.Parallel()
	db := pgtest.New(t)
	fastest := func(function string) time.Duration {
		best := time.Hour
		for range 3 {
			began := time.Now()
			exec(t, db, "select count(prescient."+function+"(left('agAAAAAAAAAA' || n, 12))) from generate_series(1, 1000) as n")
			best = min(best, time.Since(began))
		}
		return best
	}
	if value, check := fastest("journal_value"), fastest("journal_check"); value > 30*check {
		t.Errorf("1,000 lines are read in %s, and decoded in %s", value, check)
	}
}
