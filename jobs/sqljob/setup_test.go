package sqljob_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/sqljob"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// unshipped is a query as people write it.
const unshipped = `
	select id::text as entity_key, jsonb_build_object('customer', customer) as event, look_again as next
	from orders where id = any ($1::text[]::bigint[]) and shipped_at is null`

// world is a shop: its orders, and the checks on them.
type world struct {
	t         *testing.T
	url       string
	db        *sqlx.DB // the runner's
	pool      *sqlx.DB // the queries'
	client    *jobs.Client
	publisher *eventtest.Recorder
	now       time.Time
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: pgtest.URL(t), now: noon, publisher: &eventtest.Recorder{}}
	for _, db := range []**sqlx.DB{&w.db, &w.pool} {
		opened, err := pgsql.Open(t.Context(), w.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		*db = opened
	}
	w.exec(`create table orders (id bigint primary key, customer text not null, shipped_at timestamptz, look_again timestamptz)`)
	var err error
	if w.client, err = jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) queries(context.Context) (pgsql.Pool, error) { return w.pool, nil }

// config binds the job "unshipped" to a query.
func (w *world) config(query string, change ...func(*sqljob.Config)) sqljob.Config {
	cfg := sqljob.Config{Name: "unshipped", Query: query, DB: w.queries, Publisher: w.publisher, Source: "shop", Timeout: await.Limit}
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

// due asks for checks of orders at a slot.
func (w *world) due(at time.Time, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.enqueue(jobs.Request{EntityKey: key}, at)
	}
}

func (w *world) enqueue(job jobs.Request, at time.Time) {
	w.t.Helper()
	job.JobExec, job.EntityName = "unshipped", "order"
	job.CheckAt = at
	if _, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), job); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a slot with the job bound as cfg says.
func (w *world) run(at time.Time, cfg sqljob.Config, opts ...jobs.Option) slots.Result {
	w.t.Helper()
	registry := jobs.NewRegistry()
	if err := sqljob.Register(registry, cfg, opts...); err != nil {
		w.t.Fatal(err)
	}
	w.now = at
	runner, err := slots.NewRunner(w.t.Context(), slots.Config{
		DB: w.db, Registry: registry, Now: func() time.Time { return at }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := runner.Run(w.t.Context(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// state tells of each order what became of its rows: the outcome, or the slot and the error of one
// that waits.
func (w *world) state() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	ended, err := seq.Collect(admin.New(w.client).History(w.t.Context(), w.db, admin.HistoryFilter{Limit: 1000}))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range ended {
		state[e.EntityKey+e.ItemKey] = string(e.Outcome)
	}
	waiting, err := seq.Collect(admin.New(w.client).List(w.t.Context(), w.db, admin.Filter{Limit: 1000}))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, j := range waiting {
		text := j.NextCheckAt.Format(time.TimeOnly)
		if j.LastError != "" {
			text += " " + j.LastError
		}
		state[j.EntityKey+j.ItemKey] = text
	}
	return state
}

// published returns what was published, by subject.
func (w *world) published() []event.Event {
	list := w.publisher.Events()
	slices.SortStableFunc(list, func(a, b event.Event) int { return strings.Compare(a.Subject+a.ID, b.Subject+b.ID) })
	return list
}

// table is a publisher that writes into a table of the runner's database, in the transaction it is
// given.
type table struct{ eventtest.Recorder }

func (*table) PublishTx(ctx context.Context, tx jobs.Tx, events []event.Event) error {
	for _, e := range events {
		if _, err := tx.ExecContext(ctx, `insert into published (id, subject) values ($1, $2)`, e.ID, e.Subject); err != nil {
			return err
		}
	}
	return nil
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
