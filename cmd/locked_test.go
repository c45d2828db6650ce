package cmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// missedBesideALock makes a check due in each of the last four days, which are the slots, and returns a session that has
// cancelled the oldest one and goes on.
func missedBesideALock(t *testing.T) (url string, db *sqlx.DB, psql *sqlx.Tx) {
	t.Helper()
	url = pgtest.URL(t)
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec(`select prescient.set_width('1 day')`)
	db.MustExec(`update prescient.setting set since = date_trunc('day', now(), 'UTC') - interval '4 days'`)
	for n := range 4 {
		db.MustExec(fmt.Sprintf(`
			insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
			select prescient.ensure_job('job'), 'order', '%d', at, at
			from (select date_trunc('day', now(), 'UTC') - interval '%d days') as s (at)`, n, 4-n))
	}
	psql = db.MustBegin()
	t.Cleanup(func() { _ = psql.Rollback() })
	psql.MustExec(`select prescient.cancel('job', 'order', '0')`)
	return url, db, psql
}

// ended counts the rows that are done.
func ended(t *testing.T, db *sqlx.DB) (n int) {
	t.Helper()
	if err := db.GetContext(t.Context(), &n, `select count(*) from prescient.future_job_history where outcome = 'done'`); err != nil {
		t.Fatal(err)
	}
	return n
}

func oneJob() *jobs.Registry {
	registry := jobs.NewRegistry()
	registry.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	return registry
}

func TestACommandNamesTheSessionThatHasLockedARowAndDoesAllElse(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the session is on a worker")
	for _, args := range [][]string{{"catch-up"}, {"run", "--catch-up"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			url, db, psql := missedBesideALock(t)
			run := func() (Code, string) {
				var log syncBuffer
				app := New(oneJob())
				app.Out, app.Err = &log, &log
				return app.Run(t.Context(), append(args, "--database-url", url)), log.String()
			}
			code, log := run()
			if code != Left || !strings.Contains(log, "are left in their slot: session ") || !strings.Contains(log, "pg_terminate_backend") {
				t.Errorf("exit code %d\n%s", code, log)
			}
			if n := ended(t, db); n != 3 {
				t.Errorf("%d rows are done, want 3\n%s", n, log)
			}
			_ = psql.Rollback()
			if code, log = run(); code != Done || ended(t, db) != 4 {
				t.Errorf("without the lock: exit code %d\n%s", code, log)
			}
		})
	}
}

func TestACheckThatAnOperatorRunsSucceedsBesideALockedRow(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the session is on a worker")
	url, db, psql := missedBesideALock(t)
	db.MustExec(`update prescient.future_job set next_check_at = date_trunc('day', now(), 'UTC') where entity_key = '1'`)
	psql.MustExec(`select prescient.cancel('job', 'order', '1')`)
	var log syncBuffer
	app := New(oneJob())
	app.Out, app.Err = &log, &log
	code := app.Run(t.Context(), []string{"jobs", "run", "job", "order", "2", "--database-url", url})
	if code != Left || ended(t, db) != 1 || !strings.Contains(log.String(), "was checked, and ended as done") ||
		!strings.Contains(log.String(), "locked, and left to catch-up: session ") {
		t.Errorf("exit code %d, want %d\n%s", code, Left, &log)
	}
}

func TestADaemonChecksMissedSlotsBesideALockedRow(t *testing.T) {
	t.Parallel()
	url, db, psql := missedBesideALock(t)
	log := new(syncBuffer)
	_, stop := serveLogging(t, log, oneJob(), "daemon", "--database-url", url)
	defer stop()
	await.True(t, "the other rows to be recorded", func() bool { return ended(t, db) == 3 })
	await.True(t, "catch-up to leave the row", func() bool { return strings.Contains(log.String(), "catch-up left rows") })
	if err := psql.Rollback(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the row to be recorded", func() bool { return ended(t, db) == 4 })
	if strings.Contains(log.String(), "level=ERROR") {
		t.Error(log)
	}
}
