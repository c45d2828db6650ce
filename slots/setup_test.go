package slots_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/await"
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

// noon is when every test begins; the ledger begins at the slot after it.
var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// world is a database of its own, a clock, and jobs.
type world struct {
	t        testing.TB
	url      string
	db       *sqlx.DB
	clock    *replay.Clock
	registry *jobs.Registry
	client   *jobs.Client
	ledger   *ledger.Ledger
}

func setup(t testing.TB) *world {
	t.Helper()
	return setupAt(t, pgtest.URL(t))
}

// setupAt is setup on a migrated database.
func setupAt(t testing.TB, url string) *world {
	t.Helper()
	w := &world{t: t, url: url, clock: replay.NewClock(noon), registry: jobs.NewRegistry()}
	var err error
	if w.db, err = pgsql.Open(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	if w.ledger, err = ledger.New(t.Context(), w.db, "", w.clock.Now); err != nil {
		t.Fatal(err)
	}
	if err := w.ledger.Begin(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	return w
}

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// groupOf returns what the rows of one group have in common.
func groupOf(job jobs.FutureJob) string {
	if job.GroupKey != "" {
		return job.GroupKey
	}
	return job.EntityName + "\x1f" + job.EntityKey
}

// runner returns a new runner, with changes to its configuration.
func (w *world) runner(change ...func(*slots.Config)) *slots.Runner {
	w.t.Helper()
	cfg := slots.Config{DB: w.db, Registry: w.registry, Now: w.clock.Now, Page: 50, Lease: 10 * time.Second, Grace: time.Second, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	r, err := slots.NewRunner(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// enqueue asks for n checks of a job at a slot, on the entities "order 0", "order 1" ...
func (w *world) enqueue(job string, at time.Time, n int) {
	w.t.Helper()
	var list []jobs.Request
	for i := range n {
		j := jobs.Request{JobExec: job, EntityName: "order", EntityKey: fmt.Sprint(i)}
		j.CheckAt = at
		list = append(list, j)
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

// run steps the clock to a slot and runs it.
func (w *world) run(at time.Time, change ...func(*slots.Config)) slots.Result {
	w.t.Helper()
	w.clock.Set(at)
	result, err := w.runner(change...).Run(w.t.Context(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// background runs a slot beside the test.
func (w *world) background(at time.Time, change ...func(*slots.Config)) <-chan slots.Result {
	w.t.Helper()
	finished := make(chan slots.Result, 1)
	r := w.runner(change...)
	go func() {
		result, err := r.Run(context.WithoutCancel(w.t.Context()), at)
		if err != nil {
			w.t.Error(err)
		}
		finished <- result
	}()
	return finished
}

// refuseHistory lets each insert into history fail, until the trigger refuse is dropped.
func (w *world) refuseHistory(message, code string) {
	w.t.Helper()
	w.db.MustExec(fmt.Sprintf(`
		create function refuse() returns trigger language plpgsql as $$
		begin
			raise exception %s using errcode = %s;
		end
		$$;
		create trigger refuse before insert on prescient.future_job_history for each row execute function refuse()`,
		pq.QuoteLiteral(message), pq.QuoteLiteral(code)))
}

// outcomes counts history by outcome.
func (w *world) outcomes() map[jobs.Outcome]int {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).History(w.t.Context(), w.db, admin.HistoryFilter{Limit: 1 << 20}))
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[jobs.Outcome]int{}
	for _, e := range list {
		counts[e.Outcome]++
	}
	return counts
}

// waiting lists what waits.
func (w *world) waiting() []jobs.FutureJob {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).List(w.t.Context(), w.db, admin.Filter{Limit: 1 << 20}))
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// done is a check that is finished at once.
func done(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }

// slotGrid is the grid of every test's database.
var slotGrid = grid.Default

// eventually waits until the database shows something.
func (w *world) eventually(what string, shown func() bool) {
	w.t.Helper()
	await.True(w.t, what, shown)
}

// rowsInTrouble counts the rows of slots in trouble.
func rowsInTrouble(s ledger.Status) (n int64) {
	for _, t := range s.Trouble {
		n += t.Waiting().N
	}
	return n
}
