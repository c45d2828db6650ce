package replay_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var noon = time.Date(1999, time.December, 31, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, registry *jobs.Registry) (*replay.Replay, *sqlx.DB) {
	t.Helper()
	db, err := replay.Connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r, err := replay.Open(t.Context(), db, registry, noon)
	if err != nil {
		t.Fatal(err)
	}
	return r, db
}

func enqueue(t *testing.T, r *replay.Replay, db *sqlx.DB, at time.Time) {
	t.Helper()
	job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: at.String()}
	job.CheckAt = at
	if _, err := r.Client.Enqueue(t.Context(), jobs.OwnTx(db), job); err != nil {
		t.Fatal(err)
	}
}

func TestSkipGoesToTheNextSlotThatHasRowsAndNoFurtherThanAsked(t *testing.T) {
	t.Parallel()
	var checks atomic.Int64
	registry := jobs.NewRegistry()
	registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		checks.Add(1)
		return nil, nil
	}))
	r, db := open(t, registry)
	enqueue(t, r, db, noon.Add(100*time.Hour))
	for _, step := range []struct {
		to, want time.Duration
		skipped  int64
	}{
		{15 * time.Minute, 15 * time.Minute, 0},
		{10 * time.Hour, 10 * time.Hour, 38},
		{1000 * time.Hour, 100 * time.Hour, 359},
		{200 * time.Hour, 200 * time.Hour, 399},
	} {
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		skipped, err := r.Skip(t.Context(), noon.Add(step.to))
		if err != nil || skipped != step.skipped || !r.Now().Equal(noon.Add(step.want)) {
			t.Errorf("skip to %s: %d skipped, at %s, %v; want %d, at %s", step.to, skipped, r.Now(), err, step.skipped, noon.Add(step.want))
		}
	}
	if checks.Load() != 1 {
		t.Errorf("%d checks, want 1", checks.Load())
	}
	status, err := r.Ledger.Status(t.Context(), time.Time{})
	if err != nil || !status.OK() {
		t.Errorf("slots are in trouble: %v, %v", status.Trouble, err)
	}
	run, err := r.Ledger.Show(t.Context(), noon.Add(50*time.Hour))
	if err != nil || run.State != slots.StateDone || run.Kind != slots.KindRun {
		t.Errorf("a skipped slot is %+v in the ledger, %v", run, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseDropsTheSchemaThoughTheContextHasEnded(t *testing.T) {
	t.Parallel()
	r, db := open(t, jobs.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	var n int
	if err := db.GetContext(t.Context(), &n, `select count(*) from pg_namespace where nspname = $1`, r.Schema); err != nil || n != 0 {
		t.Errorf("%d schemas are left, %v", n, err)
	}
}

func TestConnectSaysNothingAboutABadURL(t *testing.T) {
	t.Parallel()
	if _, err := replay.Connect(t.Context(), "postgres://user:secret@["); !errors.Is(err, pgsql.ErrURL) {
		t.Errorf("got %v, want ErrURL", err)
	}
}
