package jobs_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// now is the clock of every test, in the slot of noon.
var now = time.Date(2030, time.March, 1, 12, 7, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(grid.Default.Floor(now), n) }

type world struct {
	t      *testing.T
	db     *sqlx.DB
	client *jobs.Client
}

func setup(t *testing.T, change ...func(*jobs.Config)) *world {
	t.Helper()
	return setupOn(t, pgtest.New(t), change...)
}

// setupWith is setup on a pool whose sessions have a setting.
func setupWith(t *testing.T, setting, value string) *world {
	t.Helper()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Param(setting, value))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return setupOn(t, db)
}

func setupOn(t *testing.T, db *sqlx.DB, change ...func(*jobs.Config)) *world {
	t.Helper()
	w := &world{t: t, db: db}
	cfg := jobs.Config{Now: func() time.Time { return now }}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// check is a job that is fit to be enqueued, on the entity "order <key>".
func check(key string, at time.Time) jobs.Request {
	j := jobs.Request{JobExec: "remind", EntityName: "order", EntityKey: key}
	j.CheckAt = at
	return j
}

// row is a row of that job, as a function gets it.
func row(key string) jobs.FutureJob {
	return jobs.FutureJob{JobExec: "remind", EntityName: "order", EntityKey: key}
}

func anonymous(key string, at time.Time) jobs.Request {
	j := check(key, at)
	j.Anonymous = true
	return j
}

func keyOf(key string) jobs.Key { return check(key, now).Key() }

func (w *world) enqueue(job jobs.Request, on jobs.OnConflict) jobs.EnqueueResult {
	w.t.Helper()
	e, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), job, on)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) waiting() []jobs.FutureJob {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).List(w.t.Context(), w.db, admin.Filter{Limit: 10_000}))
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) history() []admin.HistoryRow {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).History(w.t.Context(), w.db, admin.HistoryFilter{Limit: 10_000}))
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// outcomes counts history by outcome.
func (w *world) outcomes() map[jobs.Outcome]int {
	w.t.Helper()
	n := map[jobs.Outcome]int{}
	for _, e := range w.history() {
		n[e.Outcome]++
	}
	return n
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

// fail ends every waiting row as failed, as a run does.
func (w *world) fail() {
	w.t.Helper()
	w.exec(`with gone as (delete from prescient.future_job returning *)
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count,
			error_count, last_error, spent, payload, enqueued_at, enqueued_by, outcome, lateness, duration, runner)
		select id, name, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, 2, 6, 'boom', '3 seconds', payload,
			enqueued_at, enqueued_by, 'failed', '2 seconds', '1 second', 'runner-1' from gone join prescient.job using (job)`)
}

// fieldErrors are the fields and rules that err names.
func fieldErrors(err error) map[string]string {
	found := map[string]string{}
	var walk func(error)
	walk = func(err error) {
		if e, ok := err.(*jobs.FieldError); ok { //nolint:errorlint // each error of the tree is looked at
			found[e.Field] = e.Message
		}
		switch e := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		case interface{ Unwrap() error }:
			walk(errors.Unwrap(err))
		}
	}
	walk(err)
	return found
}
