package slots

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/turn"
)

// doorOf is a door whose next instant is its time.
type doorOf struct{ time.Time }

func (d doorOf) Enter(context.Context) (time.Time, bool) { return d.Time, true }
func (d doorOf) Await(context.Context) bool              { time.Sleep(time.Until(d.Time)); return true }
func (doorOf) Spare(time.Time)                           {}
func (doorOf) Leave()                                    {}
func (doorOf) IsLimited() bool                           { return true }

// staleCheck returns a round whose only row was read long ago, with the instant at which its check was to begin, and the next one of the
// limit. No database answers.
func staleCheck(t *testing.T, at, ahead time.Time, check jobs.CheckFunc) (*round, *unit) {
	t.Helper()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	registry := jobs.NewRegistry()
	registry.Register("job", check, jobs.PerSecond(100), jobs.Timeout(time.Minute))
	def, _ := engine.Lookup(registry, "job")
	cfg := Config{DB: db, Registry: registry, Workers: 4, Connections: 1, Page: 10, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	r := newRun(t.Context(), &Runner{cfg: cfg, server: server.Server{DB: db, Lease: cfg.Lease, Logger: cfg.Logger}}, time.Time{}, selection{kind: KindRun})
	r.work = t.Context()
	l := &lane{spec: turn.Spec{Places: 4}}
	c := &claim{Claim: record.Claim{Lease: lease.New()}, lane: l, lanes: []*lane{l}, read: elapsed.Now().Add(-fresh)}
	c.Extend(elapsed.Now(), time.Hour)
	c.ctx = c.Begin(t.Context())
	t.Cleanup(c.Release)
	q := &queue{lane: l, door: doorOf{ahead}}
	u := &unit{def: def, number: 1}
	u.rows = append(u.one[:0], jobs.FutureJob{ID: 1, JobExec: "job"})
	q.units = []*unit{u}
	rd := newRound(r, c, []*queue{q})
	if rd.begin(q, at, nil) != u {
		t.Fatal("the check has not begun")
	}
	return rd, u
}

// To look for a row may take as long as the database does: checks that waited for that would begin all at once.
func TestACheckThatBeginsLateSinceItsRowWasLookedForTakesAnotherInstant(t *testing.T) {
	t.Parallel()
	ahead := elapsed.Now().Add(200 * time.Millisecond)
	called := false
	rd, u := staleCheck(t, elapsed.Now().Add(-time.Hour), ahead, func(context.Context, jobs.FutureJob) (*time.Time, error) {
		called = true
		if elapsed.Now().Before(ahead) {
			t.Error("it has not waited for the instant")
		}
		return nil, nil
	})
	if rd.check(u); !called {
		t.Error("the function was not called")
	}
}

// However many look for their rows, they have what connections the run has, and their time is not that of their checks.
func TestALookForARowWaitsForThoseWhoReadAndIsNotInTheTimeoutOfTheCheck(t *testing.T) {
	t.Parallel()
	var ends time.Time
	rd, u := staleCheck(t, time.Time{}, time.Time{}, func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		ends, _ = ctx.Deadline()
		return nil, nil
	})
	began := u.began
	rd.run.readers <- struct{}{} // somebody reads, for as long as it is waited for
	rd.check(u)
	if took := ends.Sub(began); took < lookTimeout+u.def.Timeout {
		t.Errorf("the check ends %s after the look for its row began: the one takes %s, and the other has %s", took, lookTimeout, u.def.Timeout)
	}
}

// A run that is stopped while others read does not know whether a row is there.
func TestARowThatAStopKeepsFromBeingLookedForIsNotTakenForGone(t *testing.T) {
	t.Parallel()
	rd, u := staleCheck(t, time.Time{}, time.Time{}, func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil })
	stop, end := context.WithCancel(t.Context())
	end()
	rd.run.stop = stop
	rd.run.readers <- struct{}{}
	if rd.isGone(u) {
		t.Error("it is left behind unchecked, in a slot that may be closed")
	}
}
