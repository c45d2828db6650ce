package docs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestThePagesSayTheDefaults(t *testing.T) {
	t.Parallel()
	text := strings.Join(strings.Fields(readPage(t, "../README.md")+readPage(t, "checks.md")), " ")
	for _, want := range []string{
		fmt.Sprintf("`max_checks` after %d checks", defaults.MaxChecks),
		fmt.Sprintf("`horizon` beyond %d years", jobs.DefaultHorizon/(365*24*time.Hour)),
		fmt.Sprintf("a timeout (%.0f minute)", defaults.Timeout.Minutes()),
		fmt.Sprintf("`failed` after %d errors in a row", defaults.Retry+1),
		fmt.Sprintf("%.0f minutes wide by default", grid.DefaultWidth.Minutes()),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md and checks.md do not say %q", want)
		}
	}
}

func TestTheSQLThatRequestsChecksRuns(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"../README.md", "functions.md"} {
		found := false
		for _, b := range fenced(t, page) {
			if b.language != "sql" {
				continue
			}
			found = true
			err := pgsql.InTx(t.Context(), pgtest.New(t), func(tx *sqlx.Tx) error {
				_, err := tx.Exec(b.text)
				return err
			})
			if err != nil {
				t.Errorf("%s:%d: %v", b.file, b.place, err)
			}
		}
		if !found {
			t.Errorf("%s has no SQL", page)
		}
	}
}
