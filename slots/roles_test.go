package slots_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// roleSchema is not the default one, since its roles are the server's.
const roleSchema = "least_privilege"

// withRole opens the database as one of the roles of roleSchema.
func withRole(t *testing.T, url string, role pg.Role) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url, pgsql.Param("role", role.In(pgsql.Schema(roleSchema))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rolesOf makes roleSchema with its roles, which are gone at the end.
func rolesOf(t *testing.T, url string) {
	t.Helper()
	pgtest.NotOnCitus(t, "the owner of functions has other connections to a worker than their caller")
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	pgtest.DropRoles(t, db, roleSchema)
	if err := errors.Join(pgsql.Migrate(t.Context(), db, roleSchema), pgsql.MakeRoles(t.Context(), db, roleSchema)); err != nil {
		t.Fatal(err)
	}
}

// An app asks for checks, a runner runs them in every shape, recovers what a dead one left, and catches up, a reader
// looks at it, and an operator puts back what failed: each with its own role and no more.
func TestEveryPartIsPlayedWithTheRightsOfItsRole(t *testing.T) {
	t.Parallel()
	url := pgtest.Direct(t)
	rolesOf(t, url)
	app, reader, runner, operator := withRole(t, url, pg.App), withRole(t, url, pg.Reader), withRole(t, url, pg.Runner), withRole(t, url, pg.Operator)
	at := replay.NewClock(noon)

	client, err := jobs.NewClient(t.Context(), app, jobs.Config{Schema: roleSchema}) // only a runner may give a clock
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"one", "tx", "batch", "batchtx", "group", "fails", "again"}
	check := func(job, key string) jobs.Request {
		j := jobs.Request{JobExec: job, EntityName: "order", EntityKey: key}
		j.CheckAt = slot(1)
		return j
	}
	var stream []jobs.Request
	for _, name := range names {
		if _, err := client.Enqueue(t.Context(), jobs.OwnTx(app), check(name, "1")); err != nil {
			t.Fatal(err)
		}
		stream = append(stream, check(name, "2"))
	}
	if n, err := client.EnqueueAll(t.Context(), jobs.OwnTx(app), slices.Values(stream)); n.Inserted != int64(len(names)) || err != nil {
		t.Fatalf("a stream of an app: %+v, %v", n, err)
	}
	if _, _, err := client.Reschedule(t.Context(), jobs.OwnTx(app), check("one", "2").Key(), slot(2)); err != nil {
		t.Error(err)
	}
	if _, err := seq.Collect(admin.New(client).List(t.Context(), app, admin.Filter{Limit: 1})); err == nil {
		t.Error("an app reads the table")
	}

	registry := jobs.NewRegistry()
	batch := func(_ context.Context, all []jobs.FutureJob) ([]jobs.Result, error) {
		return make([]jobs.Result, len(all)), nil
	}
	batchTx := func(ctx context.Context, _ *sqlx.Tx, all []jobs.FutureJob) ([]jobs.Result, error) {
		return batch(ctx, all)
	}
	registry.Register("one", jobs.Row(done))
	registry.Register("tx", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := client.Cancel(ctx, tx, check("again", job.EntityKey).Key())
		return nil, err
	}))
	registry.Register("batch", jobs.Batch(batch))
	registry.Register("batchtx", jobs.BatchInTx(batchTx))
	registry.Register("group", jobs.Group("family", batchTx))
	registry.Register("fails", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("no") }), jobs.Retry(0))
	registry.Register("again", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(time.Hour)), nil
	}))
	run, err := slots.NewRunner(t.Context(), slots.Config{
		DB: runner, Registry: registry, Schema: roleSchema, Now: at.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	at.Set(slot(1))
	result, err := run.Run(t.Context(), slot(1))
	if err != nil || result.State != slots.StateDone {
		t.Fatalf("%+v, %v", result, err)
	}
	at.Set(slot(4))
	if _, err := run.CatchUp(t.Context(), slots.CatchUp{Since: slot(0)}); err != nil {
		t.Fatal(err)
	}

	replayed, err := jobs.NewClient(t.Context(), operator, jobs.Config{Schema: roleSchema, Now: at.Now})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.New(t.Context(), reader, roleSchema, at.Now)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := l.Status(t.Context(), slot(0)); err != nil || !status.OK() {
		t.Errorf("%+v, %v", status, err)
	}
	outcomes := map[jobs.Outcome]int{}
	history, err := seq.Collect(admin.New(replayed).History(t.Context(), reader, admin.HistoryFilter{Limit: 100}))
	for _, e := range history {
		outcomes[e.Outcome]++
	}
	if err != nil || outcomes[jobs.OutcomeDone] != 10 || outcomes[jobs.OutcomeFailed] != 2 {
		t.Errorf("%v, %v", outcomes, err)
	}

	if retried, _, err := admin.New(replayed).Retry(t.Context(), operator, admin.RetryFilter{JobExec: "fails", Limit: 10}, slot(5)); retried != 2 || err != nil {
		t.Errorf("%d put back, %v", retried, err)
	}
	_, paused := admin.New(replayed).Pause(t.Context(), operator, "one")
	_, resumed := admin.New(replayed).Resume(t.Context(), operator, "one")
	_, pruned := admin.New(replayed).Prune(t.Context(), operator, noon.AddDate(1, 0, 0))
	_, cancelled := client.CancelEntity(t.Context(), jobs.OwnTx(operator), "order", "1")
	if err := errors.Join(paused, resumed, pruned, cancelled); err != nil {
		t.Error(err)
	}
	lead, err := ledger.New(t.Context(), operator, roleSchema, at.Now)
	if err != nil {
		t.Fatal(err)
	}
	_, forgotten := lead.Prune(t.Context(), slot(3))
	hourly, err := grid.New(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, widened := lead.SetWidth(t.Context(), hourly)
	if err := errors.Join(forgotten, widened); err != nil {
		t.Error(err)
	}
}
