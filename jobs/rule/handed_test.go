package rule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/webhook"
	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/jobs/rule/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// receiver is a webhook that keeps the events that it got. It refuses events of a subject.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string
	refuse string // a subject
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var e event.Event
		if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
			t.Errorf("the body is no event: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Subject == r.refuse {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		r.got = append(r.got, fmt.Sprint(e.ID, " ", e.Type, " ", e.Subject))
	}))
	t.Cleanup(r.Close)
	return r
}

func TestTheEventsThatAWebhookGotAreListedWithTheirIDs(t *testing.T) {
	t.Parallel()
	s, r := newShop(t), newReceiver(t)
	p, err := event.Open(t.Context(), r.URL, event.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s.publish(p)
	s.exec(`create table shop.escalation (order_id bigint)`)
	s.apply(unshipped(steps(
		rule.Step{Name: "first", After: rule.Delay{Duration: 4 * day24}, Every: rule.Delay{Duration: day24}, Times: 2, Event: "late"},
		rule.Step{Name: "note", After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key)"},
	)))
	s.order(1, 2, 3)
	for _, id := range []string{"1", "2", "3"} {
		s.waits(id, day(4))
	}
	r.refuse = "order/3"
	s.run(day(4))
	s.run(day(5))
	if len(r.got) != 4 {
		t.Fatalf("the webhook got %q: want two events of two orders", r.got)
	}
	// An event keeps the key that its row had.
	s.exec(`select prescient.rule_rename('order.unshipped', 'order', '1', '11', null)`)
	s.exec(`select prescient.rule_rename('order.unshipped', 'order', '11', '111', null)`)

	// It has not those that the webhook refused, nor the step without an event.
	store, err := rulestore.New(t.Context(), s.db, rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handed := func(limit int) []rulestore.HandedEvent {
		t.Helper()
		list, err := store.LastFired(t.Context(), "shop", limit)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	var got, of []string
	for i, e := range handed(100) {
		got = append(got, fmt.Sprint(e.ID, " ", e.Type, " ", e.Subject))
		of = append(of, fmt.Sprint(e.Rule, " ", rule.Repetition(e.Step, e.Number), " ", e.Dead))
		if e.FiredAt.IsZero() || i == 0 && e.Number != 2 {
			t.Errorf("%+v", e)
		}
	}
	last := r.got[2:] // of each order
	slices.Sort(last)
	slices.Sort(got)
	slices.Sort(of)
	diff(t, last, got)
	diff(t, []string{"order.unshipped first#2 false", "order.unshipped first#2 false"}, of)

	// The limit leaves out older ones, also those of a longer time back.
	s.exec(`update prescient.rule_fired set fired_at = (fired_at at time zone 'UTC' - interval '3 hours') at time zone 'UTC' where entity_key = '2'`)
	for _, limit := range []int{1, 2} {
		if list := handed(limit); len(list) != limit || list[0].Subject == "order/2" || limit == 2 && list[1].Subject != "order/2" {
			t.Errorf("with limit %d: %+v", limit, list)
		}
	}

	// A dead letter is told.
	s.exec(`insert into prescient.event_dead (id, source, type, dead_at) values ($1, 'shop', 'late', now())`, handed(1)[0].ID)
	if list := handed(2); !list[0].Dead || list[1].Dead {
		t.Errorf("the first is the dead letter: %+v", list)
	}
	s.exec(`update prescient.rule_fired set fired_at = (fired_at at time zone 'UTC' - interval '31 days') at time zone 'UTC'
		where entity_key = '2'`)
	if list := handed(3); len(list) != 1 {
		t.Errorf("events of a month ago are listed: %+v", list)
	}
}

func TestLastEventsAreFoundByTheirTime(t *testing.T) {
	pgtest.NotOnCitus(t, "an insert from a select calls no function that reads a table")
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	s.exec(`select prescient.ensure_job('order.unshipped')`)
	s.exec(`insert into prescient.rule_fired (job, entity_key, since, step, fired_at)
		select prescient.find_job('order.unshipped'), n::text, now(), 'first', now() - (200000 - n) * interval '1 second'
		from generate_series(1, 200000) as n`)
	s.exec(`analyze prescient.rule_fired`)
	var plan []string
	if err := s.db.SelectContext(t.Context(), &plan, "explain "+pgsql.RuleFiredLast.In(""), 100, 300); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(plan, "\n"), "rule_fired_fired_at") {
		t.Errorf("the plan does not use the index: %q", plan)
	}
}
