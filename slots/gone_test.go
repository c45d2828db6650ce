package slots

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// staleCheck returns a round whose only row was read long ago, and whose check has begun. No database answers, and
// another goroutine reads until the end of the test.
func staleCheck(t *testing.T, ctx context.Context, check jobs.CheckFunc) (*round, *unit.Unit, *queue, *txn.Place) {
	t.Helper()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	registry := jobs.NewRegistry()
	registry.Register("job", check, jobs.Timeout(time.Minute))
	def, _ := registry.Lookup("job")
	log := slog.New(slog.DiscardHandler)
	cfg := Config{DB: db, Registry: registry, Workers: 4, Connections: 1, Page: 10, Lease: time.Minute, Logger: log, Now: time.Now}
	r := newRun(ctx, &Runner{cfg: cfg, server: server.Server{DB: db, Lease: cfg.Lease, Logger: log}}, time.Time{}, selection{kind: KindRun})
	t.Cleanup(r.close)
	l := r.lanes.lane(1, def)
	c := newClaim(l)
	c.account, c.readAt = r.lanes.account(l, r.crew.changed), elapsed.Now().Add(-fresh)
	c.Extend(elapsed.Now(), time.Hour)
	c.ctx = c.Begin(t.Context())
	t.Cleanup(c.Release)
	b := unit.NewBuilder([]jobs.FutureJob{{ID: 1, JobExec: "job"}})
	b.Add(0, def, 1, l.limitKey)
	q := l.queue(nil)
	q.units = b.Units
	rd := r.calls.round(c, []*queue{q})
	pass, ok := q.door.Enter(t.Context())
	u := rd.begin(q, nil)
	if !ok || u == nil {
		t.Fatal("the check has not begun")
	}
	reads, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() { _ = r.pages.InTurn(t.Context(), func() error { close(reads); <-over; return nil }) }()
	<-reads
	return rd, u, q, &txn.Place{Pass: pass}
}

// However many look for their rows, they have what connections the run has, and their time is not that of their checks.
func TestALookForARowWaitsForThoseWhoReadAndIsNotInTheTimeoutOfTheCheck(t *testing.T) {
	t.Parallel()
	var ends time.Time
	rd, u, q, place := staleCheck(t, t.Context(), func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		ends, _ = ctx.Deadline()
		return nil, nil
	})
	began := u.Watch.Began()
	rd.check(u, q, place)
	if took := ends.Sub(began); took < time.Second+u.Def.Timeout {
		t.Errorf("the check ends %s after the look for its row began: the look takes a second, and the check has %s", took, u.Def.Timeout)
	}
}

// A run that is stopped while others read does not know whether a row is there.
func TestARowThatAStopKeepsFromBeingLookedForIsNotTakenForGone(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	rd, u, _, _ := staleCheck(t, ctx, func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	stop()
	if rd.isGone(u) {
		t.Error("it is left behind unchecked, in a slot that may be closed")
	}
}
