package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
)

// useRules creates the table orders, and lets the registry check rules.
func (w *world) useRules() {
	w.t.Helper()
	w.db.MustExec(`create table orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)`)
	reading, err := pgsql.Open(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = reading.Close() })
	err = rule.Register(w.registry, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) { return reading, nil }, Publisher: outbox.New(w.db, ""), Source: "shop",
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// apply applies the rule "late", which publishes events of a type a second after an order was placed.
func (w *world) apply(event string) {
	w.t.Helper()
	file, err := rule.Parse(strings.NewReader(fmt.Sprintf(`
rules:
  - {name: late, table: public.orders, key: id, since: placed_at, done: shipped_at, overdue: fire, steps: [{after: 1s, event: %s}]}`, event)))
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := rulestore.New(w.t.Context(), w.db, rulestore.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := store.Apply(w.t.Context(), file, nil); err != nil {
		w.t.Fatal(err)
	}
}

// published returns the type and the key of each event in the outbox.
func (w *world) published() (list []string) {
	w.t.Helper()
	if err := w.db.SelectContext(w.t.Context(), &list, `select type || ' ' || replace(subject, 'orders/', '') from prescient.event_outbox order by type, subject`); err != nil {
		w.t.Fatal(err)
	}
	return list
}

func TestARunningDaemonChecksAnAppliedRuleFromTheNextSlotOn(t *testing.T) {
	t.Parallel()
	w := setup(t, time.Second)
	w.useRules()
	var onTime atomic.Int64
	w.registry.Use(func(ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
		for _, row := range call.Rows {
			if !row.CaughtUp {
				onTime.Add(1)
			}
		}
		return next(ctx)
	})
	_, end := w.start()
	eventually(t, "a slot to be done", func() bool { return w.count(`select count(*) from prescient.slot_run where state = 'done'`) > 0 })
	w.apply("order.late")
	w.db.MustExec(`insert into orders select n, now() + n * interval '1 second' from generate_series(0, 4) as n`)
	eventually(t, "every row to be recorded", func() bool { return w.ended() == 5 })
	if err := end(); err != nil {
		t.Error(err)
	}
	want := []string{"order.late 0", "order.late 1", "order.late 2", "order.late 3", "order.late 4"}
	if diff := cmp.Diff(want, w.published()); diff != "" {
		t.Error(diff)
	}
	if onTime.Load() == 0 {
		t.Error("catch-up checked all rows, and no run of a slot did")
	}
}

func TestEachStoreHasItsOwnRules(t *testing.T) {
	t.Parallel()
	multi := NewMulti(reserved.Caller{}, t.Context(), MultiConfig{Logger: slog.New(slog.DiscardHandler)})
	stores := map[string]*world{}
	for _, name := range []string{"east", "west"} {
		w := setup(t, time.Second)
		w.useRules()
		w.db.MustExec(`insert into orders values (1, now())`)
		w.apply(name)
		stores[name] = w
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, len(stores))
	for name, w := range stores {
		go func() { ended <- multi.Run(ctx, name, w.config()) }()
	}
	for _, w := range stores {
		eventually(t, "the row to be recorded", func() bool { return w.ended() == 1 })
	}
	stop()
	for range stores {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for name, w := range stores {
		if diff := cmp.Diff([]string{name + " 1"}, w.published()); diff != "" {
			t.Errorf("store %s: %s", name, diff)
		}
	}
}
