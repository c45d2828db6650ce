package learn_test

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/replay"
	"github.com/prescient-go/prescient/sql/pgtest"
)

var update = flag.Bool("update", false, "write docs/learning.svg, and print the figures of every way to look")

// realOrders is not a part of the project: what is shown of it is skipped where it is not beside it.
const realOrders = "../../../shared/data/northwind_orders.csv"

const day = 24 * time.Hour

// The alerts of an order that is not shipped, counted from when it was placed.
const primary, final = 10 * day, 28 * day

// order is one of the real ones. All their instants are midnights.
type order struct {
	id              string
	placed, shipped time.Time // shipped: zero: never
}

func readOrders(t *testing.T) (orders []order) {
	t.Helper()
	file, err := os.Open(realOrders)
	if err != nil {
		t.Skip("the real orders are not here: ", err)
	}
	defer func() { _ = file.Close() }()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		o := order{id: line[0]}
		for i, at := range []*time.Time{&o.placed, &o.shipped} {
			if line[1+i] == "" {
				continue
			}
			if *at, err = time.Parse(time.RFC3339, line[1+i]); err != nil {
				t.Fatal(err)
			}
		}
		orders = append(orders, o)
	}
	slices.SortStableFunc(orders, func(a, b order) int { return a.placed.Compare(b.placed) })
	return orders
}

// watch is a check of orders, and what came of it. It asks for the next check an interval later, or at the next alert where that is
// earlier; of orders that were placed from an instant on, for their next alert alone.
type watch struct {
	name     string
	interval time.Duration
	alone    time.Time // zero: never
	opts     []jobs.Option

	orders map[string]order
	mu     sync.Mutex
	checks map[string][]time.Time
	alerts map[string]time.Time
	found  map[string]time.Time
}

func (w *watch) check(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.orders[job.EntityKey]
	w.checks[o.id] = append(w.checks[o.id], job.Slot)
	if !o.shipped.IsZero() && !o.shipped.After(job.Slot) {
		w.found[o.id] = job.Slot
		return nil, nil
	}
	next := o.placed.Add(final)
	if w.alone.IsZero() || o.placed.Before(w.alone) {
		next = job.Slot.Add(w.interval)
	}
	for name, after := range map[string]time.Duration{" primary": primary, " final": final} {
		switch at := o.placed.Add(after); {
		case at.After(job.Slot) && at.Before(next):
			next = at
		case !at.After(job.Slot) && w.alerts[o.id+name].IsZero():
			w.alerts[o.id+name] = job.Slot
		}
	}
	if !next.After(job.Slot) || !w.alerts[o.id+" final"].IsZero() {
		return nil, nil
	}
	return &next, nil
}

// play takes orders through the engine, with a first check of each when it is placed.
func (w *watch) play(t *testing.T, orders []order) {
	t.Helper()
	w.orders, w.checks, w.alerts, w.found = map[string]order{}, map[string][]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	registry := jobs.NewRegistry()
	registry.Register("order.unshipped", w.check, append(w.opts, jobs.MaxChecks(60), jobs.Retry(0))...)
	db, err := replay.Connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	r, err := replay.Open(t.Context(), db, registry, orders[0].placed)
	if err != nil {
		t.Fatal(err)
	}
	end := orders[len(orders)-1].placed.Add(final + day)
	for todo := orders; r.Now().Before(end); {
		slot := r.Now()
		var list []jobs.FutureJob
		for ; len(todo) > 0 && !todo[0].placed.After(slot); todo = todo[1:] {
			w.orders[todo[0].id] = todo[0]
			list = append(list, jobs.FutureJob{JobExec: "order.unshipped", EntityName: "order", EntityKey: todo[0].id, CheckAt: slot})
		}
		r.Set(slot.Add(-time.Microsecond))
		if _, err := r.Client.EnqueueMany(t.Context(), db, list, jobs.Keep); err != nil {
			t.Fatal(err)
		}
		r.Set(slot)
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		to := end
		if len(todo) > 0 {
			to = todo[0].placed
		}
		if _, err := r.Skip(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
}

// alertsOf are the alerts of the orders that were placed from an instant on.
func (w *watch) alertsOf(from time.Time) map[string]time.Time {
	alerts := map[string]time.Time{}
	for key, at := range w.alerts {
		if id, _, _ := strings.Cut(key, " "); !w.orders[id].placed.Before(from) {
			alerts[key] = at
		}
	}
	return alerts
}

// due are the alerts of these orders by arithmetic: in which slot each is to be raised.
func due(orders []order) map[string]time.Time {
	alerts := map[string]time.Time{}
	for _, o := range orders {
		for name, after := range map[string]time.Duration{" primary": primary, " final": final} {
			if at := o.placed.Add(after); o.shipped.IsZero() || o.shipped.After(at) {
				alerts[o.id+name] = at
			}
		}
	}
	return alerts
}

// figures are how many checks the orders that were placed from an instant on have cost, and how long after one was shipped, on average, a
// check has found that.
type figures struct {
	orders, checks int
	delay          time.Duration
}

func (w *watch) figures(from time.Time) (f figures) {
	found := 0
	for id, o := range w.orders {
		if o.placed.Before(from) {
			continue
		}
		f.orders++
		f.checks += len(w.checks[id])
		if at, ok := w.found[id]; ok {
			found++
			f.delay += at.Sub(o.shipped)
		}
	}
	f.delay = (f.delay / time.Duration(max(1, found))).Round(time.Hour)
	return f
}

// line is a row of the table in docs/learning.md.
func (f figures) line(name string, base figures) string {
	return fmt.Sprintf("| %s | %d | %.1f | %d %% | %.0f h |",
		name, f.checks, float64(f.checks)/float64(f.orders), 100*(base.checks-f.checks)/base.checks, f.delay.Hours())
}

// longest is the maximum of Learned, which choose finds out from the orders that are learned from alone.
const longest = 4 * day

// choose returns the shortest maximum that saves half of the checks where a half of some orders is judged by what the other half, before it,
// tells: the shorter it is, the sooner an order is found shipped.
func choose(t *testing.T, orders []order) (shortest time.Duration) {
	t.Helper()
	from := orders[len(orders)/2].placed
	daily := &watch{interval: day}
	daily.play(t, orders)
	base := daily.figures(from)
	for most := 10 * day; most > day; most -= day {
		w := &watch{interval: day, alone: from, opts: []jobs.Option{jobs.Learned(day, most)}}
		w.play(t, orders)
		got := w.figures(from)
		t.Log(got.line(fmt.Sprintf("learned from a quarter, no later than %d days", most/day), base))
		if 2*got.checks <= base.checks {
			shortest = most
		}
	}
	return shortest
}

// The first half of the orders is what is learned from, by a check that looks once a day; the second is what it is judged on.
// Whatever a run knows of an order, it knows from slots before its own.
func TestHalfOfTheChecksOfRealOrdersAreSavedAndNoAlertIsLate(t *testing.T) {
	t.Parallel()
	orders := readOrders(t)
	from := orders[len(orders)/2].placed
	later := orders[slices.IndexFunc(orders, func(o order) bool { return !o.placed.Before(from) }):]
	if *update {
		if got := choose(t, orders[:len(orders)-len(later)]); got != longest {
			t.Errorf("the orders that are learned from say that the maximum should be %s", got)
		}
	}
	learned := []jobs.Option{jobs.Learned(day, longest)}
	daily, judged := &watch{name: "a fixed interval of a day", interval: day}, &watch{name: "learned", interval: day, alone: from, opts: learned}
	ways := []*watch{daily, judged}
	if *update {
		ways = append(ways,
			&watch{name: "a fixed interval of 2 days", interval: 2 * day}, &watch{name: "a fixed interval of 3 days", interval: 3 * day},
			&watch{name: "learned, without the first half", alone: orders[0].placed, opts: learned},
		)
	}
	t.Run("replay", func(t *testing.T) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				w.play(t, orders)
				if diff := cmp.Diff(due(later), w.alertsOf(from)); diff != "" {
					t.Errorf("an alert is not in its slot:\n%s", diff)
				}
			})
		}
	})
	base, got := daily.figures(from), judged.figures(from)
	if 2*got.checks > base.checks {
		t.Errorf("%d checks instead of %d: less than half are saved", got.checks, base.checks)
	}
	page, err := os.ReadFile("../../docs/learning.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ways {
		line := w.figures(from).line(w.name, base)
		t.Log(line)
		if !strings.Contains(string(page), line) {
			t.Errorf("docs/learning.md does not have this line: make learn prints those of all ways")
		}
	}
	if *update {
		draw(t, orders[:len(orders)-len(later)], later, daily, judged)
	}
}
