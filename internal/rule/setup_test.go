package rule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// day0 is when orders are placed.
var day0 = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// day returns an instant n days after day0.
func day(n float64) time.Time { return day0.Add(time.Duration(n * 24 * float64(time.Hour))) }

// shop is a database with orders, and a rule about them.
type shop struct {
	t         *testing.T
	url       string
	db        *sqlx.DB // the runner's
	pool      *sqlx.DB // the queries'
	client    *jobs.Client
	registry  *jobs.Registry
	publisher *eventtest.Recorder
	now       time.Time
	reads     atomic.Int32 // how often a check has read orders
}

// unshipped is a rule with a step after 4 days, and one after 7.
func unshipped(change ...func(*rule.Applied)) rule.Applied {
	a := rule.Applied{
		Rule: rule.Rule{
			Name: "order.unshipped", Table: "shop.orders", Key: rule.Texts{"id"}, Entity: "order", Since: rule.Texts{"placed_at"}, Done: rule.Texts{"shipped_at"},
			Where: rule.Texts{"channel <> 'test'"}, Payload: []string{"customer"},
			Steps: []rule.Step{
				{Name: "first", After: rule.Delay{Days: 4}, Event: "order.unshipped.first"},
				{Name: "final", After: rule.Delay{Days: 7}, Event: "order.unshipped.final"},
			},
		},
		Relation: "shop.orders", Key: rule.Texts{"id"}, KeyType: rule.Texts{"bigint"},
		Facts: expr.Facts{
			Since: []expr.Expr{{SQL: "placed_at", Type: expr.Instant}}, Done: []expr.Expr{{SQL: "shipped_at", Type: expr.Instant}},
			Where: []expr.Expr{{SQL: "channel <> 'test'", Type: expr.Truth}},
		},
		Payload: []string{"customer"}, Reads: []string{"id", "placed_at", "channel", "shipped_at"},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func steps(list ...rule.Step) func(*rule.Applied) {
	return func(a *rule.Applied) {
		for i := range list {
			if list[i].Name == "" {
				list[i].Name = fmt.Sprint(i + 1)
			}
		}
		a.Rule.Steps = list
	}
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, url: pgtest.URL(t), now: day0, publisher: &eventtest.Recorder{}}
	for _, db := range []**sqlx.DB{&s.db, &s.pool} {
		opened, err := pgsql.Open(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		*db = opened
	}
	s.exec(pgtest.CreateSchema("shop"))
	s.exec(`create table shop.orders (
		id bigint primary key, customer text, channel text not null default 'web', placed_at timestamptz, shipped_at timestamptz)`)
	var err error
	if s.client, err = jobs.NewClient(t.Context(), s.db, jobs.Config{Now: func() time.Time { return s.now }}); err != nil {
		t.Fatal(err)
	}
	s.publish(s.publisher)
	return s
}

// quotesAll gives the runner a setting by which the server writes each name in quotes.
func (s *shop) quotesAll() {
	s.t.Helper()
	db, err := pgsql.Open(s.t.Context(), s.url, pgsql.Param("quote_all_identifiers", "on"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	s.db = db
}

// newLateOrder is newShop with the rule, and with an order that waits for its first step.
func newLateOrder(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	s.apply(unshipped())
	s.order(1)
	s.waits("1", day(4))
	return s
}

// publish makes the events of rules go to a publisher.
func (s *shop) publish(p event.TxPublisher) {
	s.t.Helper()
	s.registry = jobs.NewRegistry()
	err := rule.Register(s.registry, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) {
			s.reads.Add(1)
			return s.pool, nil
		},
		Publisher: p, Source: "shop", Timeout: await.Limit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// toOutbox makes the events of rules go to the outbox.
func (s *shop) toOutbox() { s.publish(outbox.New(s.db, "")) }

func (s *shop) exec(query string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), query, args...); err != nil {
		s.t.Fatal(err)
	}
}

// apply writes a rule as an apply does.
func (s *shop) apply(a rule.Applied) {
	s.t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(`insert into prescient.rule as r (name, relation, definition, state) values ($1, $2, $3, 'active')
		on conflict (name) do update set definition = excluded.definition, version = r.version + 1`, a.Rule.Name, a.Relation, string(text))
}

// order writes an order that was placed on day 0.
func (s *shop) order(ids ...int) {
	s.t.Helper()
	for _, id := range ids {
		s.exec(`insert into shop.orders (id, customer, placed_at) values ($1, 'ada', $2)`, id, day0)
	}
}

// waits enqueues the check of an order, as the trigger does. from is for an order that was opened again.
func (s *shop) waits(id string, at time.Time, from ...time.Time) {
	s.t.Helper()
	job := jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: id, CheckAt: at}
	if len(from) > 0 {
		if err := job.SetPayload(map[string]time.Time{"from": from[0]}); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.client.Enqueue(s.t.Context(), jobs.OwnTx(s.db), job); err != nil {
		s.t.Fatal(err)
	}
}

// run runs the slot at or after an instant.
func (s *shop) run(at time.Time) slots.Result {
	s.t.Helper()
	result, err := s.tryRun(at)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *shop) tryRun(at time.Time) (slots.Result, error) {
	s.t.Helper()
	s.now = grid.Default.Ceil(at)
	runner, err := slots.NewRunner(s.t.Context(), slots.Config{
		DB: s.db, Registry: s.registry, Now: func() time.Time { return s.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return runner.Run(s.t.Context(), s.now)
}

// state tells what became of each check: the outcome with what was found, or the day and the error of one that waits.
func (s *shop) state() map[string]string {
	s.t.Helper()
	state := map[string]string{}
	ended, err := seq.Collect(admin.New(s.client).History(s.t.Context(), s.db, admin.HistoryFilter{Limit: 1000}))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range slices.Backward(ended) {
		var p struct {
			Found string
			Fired []string
		}
		if len(e.Payload) > 0 {
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				s.t.Fatal(err)
			}
		}
		state[e.JobExec+" "+e.EntityKey] = strings.TrimSpace(fmt.Sprintf("%s: %s %s", e.Outcome, p.Found, strings.Join(p.Fired, ",")))
	}
	waiting, err := seq.Collect(admin.New(s.client).List(s.t.Context(), s.db, admin.Filter{Limit: 1000}))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, j := range waiting {
		text := fmt.Sprintf("day %.4g", j.NextCheckAt.Sub(day0).Hours()/24)
		if j.ErrorCount > 0 {
			text += " " + j.LastError
		}
		state[j.JobExec+" "+j.EntityKey] = text
	}
	return state
}

// wants compares the state of the checks of order.unshipped.
func (s *shop) wants(want map[string]string) {
	s.t.Helper()
	got := map[string]string{}
	for key, is := range s.state() {
		if id, ok := strings.CutPrefix(key, "order.unshipped "); ok {
			got[id] = is
		}
	}
	diff(s.t, want, got)
}

// outbox returns the type and the subject of the events in the outbox.
func (s *shop) outbox() (list []string) {
	s.t.Helper()
	if err := s.db.SelectContext(s.t.Context(), &list, `select type || ' ' || replace(subject, 'order/', '') from prescient.event_outbox order by position`); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// published returns the type and the subject of what was published.
func (s *shop) published() (list []string) {
	for _, e := range s.publisher.Events() {
		list = append(list, e.Type+" "+strings.TrimPrefix(e.Subject, "order/"))
	}
	return list
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
