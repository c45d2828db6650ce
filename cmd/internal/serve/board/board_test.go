package board

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestWhatAdviceAsksOfTheDatabaseCounts(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Connect("postgres", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec(`select prescient.ensure_job('ok')`)
	b, err := New(t.Context(), Config{
		DB: db, Runner: slots.Config{Registry: jobs.NewRegistry()},
		Publishing: &schedule.PublishConfig{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Overview(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	b.cache.limit.SetLimit(0) // what is spent does not come back
	spent := func(look func() error) float64 {
		t.Helper()
		before := b.cache.limit.Tokens()
		if err := look(); err != nil {
			t.Fatal(err)
		}
		return before - b.cache.limit.Tokens()
	}
	none := spent(func() error { _, _ = b.Advice(t.Context(), "none", 0); return nil }) // that there is no such job
	advice := spent(func() error { _, err := b.Advice(t.Context(), "ok", 0); return err })
	if advice <= none {
		t.Errorf("advice counts %v statements, and %v if there is no such job", advice, none)
	}
}

func TestADatabaseThatRefusesIsNotAskedForEachLook(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	b := &source{cfg: Config{DB: db}, cache: newCache()}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _ = b.current(gone)
	if b.failed != nil {
		t.Error("that somebody has gone is kept as an error")
	}
	_, first := b.current(t.Context())
	tried := b.tried
	for range 100 {
		if _, err := b.current(t.Context()); err == nil || !errors.Is(err, first) {
			t.Fatalf("%v, want the error of the first look, %v", err, first)
		}
	}
	if b.tried != tried {
		t.Error("the database was asked again")
	}
}

// A language sorts a Capital among the small letters. Go and the columns of names sort by bytes.
func TestEachJobHasItsFiguresWhateverItsName(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{
		Registry: jobs.NewRegistry(),
		Start:    time.Now().Truncate(15 * time.Minute).Add(-time.Hour),
	})
	registry := jobs.NewRegistry()
	names := []string{"B", "Order.a", "a", "order.b", "order_c"}
	for _, name := range names {
		registry.Register(name, jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
		kit.Enqueue(jobs.Request{JobExec: name, EntityName: "order", EntityKey: "1"}, kit.Now())
	}
	runner, err := slots.NewRunner(t.Context(), slots.Config{DB: kit.DB, Registry: registry, Now: kit.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	kit.Clock.Set(kit.Client.Grid().Next(kit.Now()))
	if _, err := runner.Run(t.Context(), kit.Now()); err != nil {
		t.Fatal(err)
	}
	b, err := New(t.Context(), Config{
		DB: kit.DB, Runner: slots.Config{Registry: registry},
		Publishing: &schedule.PublishConfig{}, Now: kit.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	all, err := b.Jobs(t.Context(), JobsFilter{}, 0)
	if err != nil || len(all.Jobs) != len(names) {
		t.Fatalf("%d jobs, %v", len(all.Jobs), err)
	}
	for _, j := range all.Jobs {
		if j.Checked != 1 {
			t.Errorf("%s: %d checks, want 1", j.JobExec, j.Checked)
		}
	}
}

// The statements of a page tell of one moment: a slot is not run in one of its sentences and being run in another.
func TestAPageReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b, err := New(t.Context(), Config{
		DB: db, Runner: slots.Config{Registry: jobs.NewRegistry()}, Publishing: &schedule.PublishConfig{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	_, err = loadOf(b.source, func(ctx context.Context, r *reader) (none struct{}, err error) {
		before, err := r.ledger.In(reserved.Caller{}, r).Status(ctx, time.Time{})
		if err != nil {
			return none, err
		}
		db.MustExec(`insert into prescient.slot_run (slot, state, kind, planned, finished_at) values ($1, 'done', 'run', 0, now())`, before.Current.Slot)
		after, err := r.ledger.In(reserved.Caller{}, r).Status(ctx, time.Time{})
		if after.Current.Slot.Equal(before.Current.Slot) && after.Current.State != before.Current.State {
			t.Errorf("the slot is first %q and then %q", before.Current.State, after.Current.State)
		}
		return none, err
	})(t.Context())
	if err != nil {
		t.Error(err)
	}
}
