package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m))
}

// noon is when every test begins; the ledger begins at the slot after it.
var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// world is a database of its own, a clock, schedules, and where their events go: the outbox, unless
// a test says otherwise.
type world struct {
	t      testing.TB
	url    string
	db     *sqlx.DB
	clock  *replay.Clock
	store  *schedule.Store
	outbox *outbox.Outbox
	to     event.TxPublisher

	timeout time.Duration // of a page
	hold    time.Duration // of a call; see schedule.PublishConfig.Hold
	around  jobs.Middleware
}

func setup(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, url: pgtest.URL(t), clock: replay.NewClock(noon)}
	var err error
	if w.db, err = pgsql.Open(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	if w.store, err = schedule.NewStore(t.Context(), w.db, schedule.Config{Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	w.outbox = outbox.New(w.db, "")
	w.to = w.outbox
	l, err := ledger.New(t.Context(), w.db, "", w.clock.Now)
	if err == nil {
		err = l.Begin(t.Context(), slot(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) runner() *slots.Runner {
	w.t.Helper()
	registry := jobs.NewRegistry()
	to := &schedule.PublishConfig{Publisher: w.to, Timeout: w.timeout}
	to.Hold(w.hold)
	schedule.Register(registry, to)
	if w.around != nil {
		registry.Use(w.around)
	}
	r, err := slots.NewRunner(w.t.Context(), slots.Config{
		DB: w.db, Registry: registry, Now: w.clock.Now, Lease: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run steps the clock to a slot and runs it.
func (w *world) run(at time.Time) slots.Result {
	w.t.Helper()
	w.clock.Set(at)
	result, err := w.runner().Run(w.t.Context(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// catchUp steps the clock and catches up on what was missed.
func (w *world) catchUp(now time.Time) slots.Caught {
	w.t.Helper()
	w.clock.Set(now)
	caught, err := w.runner().CatchUp(w.t.Context(), slots.CatchUp{})
	if err != nil {
		w.t.Fatal(err)
	}
	return caught
}

func (w *world) create(spec schedule.Spec) schedule.Schedule {
	w.t.Helper()
	s, err := w.store.Create(w.t.Context(), w.db, spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) update(spec schedule.Spec) schedule.Schedule {
	w.t.Helper()
	s, err := w.store.Update(w.t.Context(), w.db, spec, schedule.AnyVersion)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) get(id string) schedule.Schedule {
	w.t.Helper()
	s, err := w.store.Get(w.t.Context(), w.db, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// published returns the events in the outbox, in the order of readers. Other tests on the server
// hold them back for a moment.
func (w *world) published() []event.Event {
	w.t.Helper()
	written := w.count(`select count(*) from prescient.event_outbox`)
	var all []event.Event
	w.eventually("every event to be seen by readers", func() bool {
		all = w.read()
		return len(all) == written
	})
	return all
}

func (w *world) read() []event.Event {
	w.t.Helper()
	var all []event.Event
	var after outbox.Position
	for {
		page, err := w.outbox.Read(w.t.Context(), after, 10_000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, s := range page {
			all = append(all, s.Event)
			after = s.Position
		}
		if len(page) < 10_000 {
			return all
		}
	}
}

// times are the nominal times of events, such as "12:05 12:10".
func times(events []event.Event) string {
	var list []string
	for _, e := range events {
		list = append(list, e.Time.Format("15:04"))
	}
	return strings.Join(list, " ")
}

// every is a spec that is due every five minutes.
func every(id string) schedule.Spec { return schedule.Spec{ID: id, Crontab: "*/5 * * * *"} }

// memory is a publisher that keeps the events, also those of a transaction that is rolled back.
type memory struct {
	mu     sync.Mutex
	events []event.Event
}

func (m *memory) PublishTx(_ context.Context, _ jobs.Tx, events []event.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, events...)
	return nil
}

// of returns the events of one schedule.
func (m *memory) of(id string) []event.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.events), func(e event.Event) bool { return e.Subject != id })
}

// field tells which fields an error names.
func fields(err error) string {
	var found []string
	var walk func(error)
	walk = func(err error) {
		if e, ok := err.(*jobs.FieldError); ok { //nolint:errorlint // each error of the tree is looked at
			found = append(found, e.Field)
		}
		switch e := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		case interface{ Unwrap() error }:
			walk(errors.Unwrap(err))
		}
	}
	walk(err)
	return strings.Join(found, " ")
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	err := pgsql.ReadTx(context.WithoutCancel(w.t.Context()), w.db, func(tx *sqlx.Tx) error { return tx.Get(&n, query, args...) })
	if err != nil {
		w.t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}

// eventually waits until the database shows something. A long transaction of another test, such as
// one that creates 12,000 schedules, holds back the readers of all outboxes of the server.
func (w *world) eventually(what string, shown func() bool) {
	w.t.Helper()
	await.True(w.t, what, shown)
}
