package cmd

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// The function of each check runs, and breaks something, so that its outcome is lost.
func TestACheckWhoseOutcomeIsLostIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it forwards the statements")
	const waits = `: it waits in slot \S+, for the run of that slot or for catch-up\n`
	for name, test := range map[string]struct{ breaks, want string }{
		"the database is lost": {
			`alter schema prescient rename to gone`,
			`^it is not known whether job on order 1 was checked: see \S+ why order 1\n`,
		},
		"the run fails": {
			`alter table prescient.slot_progress rename to gone`,
			`^it is not known whether job on order 1 was checked` + waits,
		},
		"the database refuses the outcome": {
			`create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
			create trigger refuse before update or delete on prescient.future_job for each row execute function refuse()`,
			`^the outcome of job on order 1 could not be recorded` + waits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Direct(t)
			db, err := pgsql.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			db.MustExec(`select prescient.enqueue('job', 'order', '1', check_at => now() + interval '1 hour')`)
			registry, called := jobs.NewRegistry(), 0
			registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
				called++
				_, err := db.ExecContext(ctx, test.breaks)
				return nil, err
			}))
			var out, log syncBuffer
			app := New(registry)
			app.Out, app.Err = &out, &log
			code := app.Run(t.Context(), []string{"jobs", "run", "job", "order", "1", "--database-url", url})
			if code != Failure || called != 1 || !regexp.MustCompile(test.want).MatchString(out.String()) ||
				!strings.Contains(log.String(), " jobs run: run slot ") {
				t.Errorf("exit code %d, want %d, after %d calls\n%s%s", code, Failure, called, &out, &log)
			}
		})
	}
}
