package slots

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

// What the database has not given is nobody's: the next check, of a claim that goes on, must not begin by it.
func TestInstantsThatWereNotGivenAreNotThere(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRun(t.Context(), &Runner{cfg: Config{DB: db, Workers: 4, Connections: 1, Page: 10, Lease: time.Second}}, time.Time{}, selection{})
	r.work = t.Context()
	s := &share{limit: newLimit(r, 1, &jobs.Definition{PerSecond: 100}, 4)}
	for range 2 {
		if at, err := s.instant(t.Context()); err == nil {
			t.Errorf("a check may begin at %s", at)
		}
	}
	if n := len(s.pace.ahead); n > 0 {
		t.Errorf("%d instants are ahead", n)
	}
}
