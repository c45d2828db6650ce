package slots_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A pooler in transaction mode gives every transaction another session.
func TestEveryShapeOfAJobRunsThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	w := setupAt(t, pgtest.Direct(t))
	w.db.MustExec(`create table public.effect (key text)`)
	affect := func(ctx context.Context, tx *sqlx.Tx, rows ...jobs.FutureJob) error {
		for _, r := range rows {
			if _, err := tx.ExecContext(ctx, `insert into public.effect values ($1)`, r.JobExec+r.EntityKey); err != nil {
				return err
			}
		}
		return nil
	}
	each := func(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(rows)), affect(ctx, tx, rows...)
	}
	w.registry.Register("plain", jobs.Row(done))
	w.registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return nil, affect(ctx, tx, job)
	}))
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(rows)), nil
	}))
	w.registry.Register("batchtx", jobs.BatchInTx(each))
	w.registry.Register("group", jobs.Group("family", each))
	names := []string{"plain", "tx", "batch", "batchtx", "group"}

	db := open(t, pgtest.Pooled(t, w.url))
	var err error
	if w.client, err = jobs.NewClient(t.Context(), db, jobs.Config{Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	direct := w.db
	w.db = db
	for _, job := range names {
		w.enqueue(job, slot(1), 200)
	}
	w.clock.Set(slot(1))
	first, second := w.background(slot(1), func(c *slots.Config) { c.Name = "first" }), w.background(slot(1), func(c *slots.Config) { c.Name = "second" })
	if checked := (<-first).Checked + (<-second).Checked; checked != 1000 {
		t.Errorf("%d rows were checked, want 1000", checked)
	}
	w.db = direct
	if n := w.count(`select count(*) from prescient.future_job_history where outcome = 'done' and error_count = 0`); n != 1000 {
		t.Errorf("%d rows are done, want 1000", n)
	}
	if n, keys := w.count(`select count(*) from public.effect`), w.count(`select count(distinct key) from public.effect`); n != 600 || keys != 600 {
		t.Errorf("%d effects of %d rows, want one of each of 600", n, keys)
	}
	if n := w.count(`select count(*) from prescient.slot_claim`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}
