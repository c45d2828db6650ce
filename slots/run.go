package slots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/call"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/holder"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/page"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	"github.com/prescient-go/prescient/slots/internal/session"
	"github.com/prescient-go/prescient/slots/internal/statement"
	"github.com/prescient-go/prescient/slots/internal/turn"
	"github.com/prescient-go/prescient/slots/internal/txn"
	pgsql "github.com/prescient-go/prescient/sql"
)

// lookEvery is how often an idle runner looks for claims to take over.
const lookEvery = 500 * time.Millisecond

// earlyError is returned for a slot that has not begun by the clock that slots are compared with.
type earlyError struct{ ahead time.Duration }

func (e earlyError) Error() string {
	return fmt.Sprintf("the slot is %s ahead by the database's clock: a slot is never run early", spoken.Duration(e.ahead))
}

// errOffGrid is returned for an instant that was a slot when the runner was made.
var errOffGrid = errors.New("it is no slot since the width was changed: its rows wait in the slots after it")

// run is the work of one runner on one slot. The goroutine of do decides what to claim, and each
// claim has a goroutine of its own, in workOn. They share the bounds on concurrent work, the
// leases, and the result.
type run struct {
	*Runner
	*phases

	slot    time.Time
	sel     selection
	report  *report
	session *session.Session
	leases  *lease.Keeper
	records *record.Recorder
	pages   *page.Reader
	lanes   *lanes
	calls   *caller
	crew    *crew
}

func newRun(ctx context.Context, r *Runner, slot time.Time, sel selection) *run {
	n := &run{Runner: r, phases: newPhases(ctx, r.cfg.Grace), slot: slot, sel: sel, crew: newCrew()}
	panics := call.NewPanics(r.cfg.Logger)
	n.report = &report{cfg: &r.cfg, ctx: n.stop, panics: panics, result: Result{Slot: slot, Kind: sel.kind}}
	writer := &statement.Writer{Server: &r.server, Slot: slot, Runner: r.cfg.Name, Now: r.Now, Replayed: r.cfg.Now != nil}
	n.session = &session.Session{
		Server: &r.server, Slot: slot, Kind: string(sel.kind), Token: lease.NewToken(), Runner: r.cfg.Name,
		Able: r.cfg.Workers, Clock: writer.Clock,
	}
	n.leases = lease.NewKeeper(&r.server, n.session.Token, slog.Time("slot", slot))
	n.records = record.New(writer, record.Options{
		Leases: n.leases, Page: r.cfg.Page, Moment: n.moment, Count: n.count, CountRefused: n.countRefused,
	})
	n.pages = page.NewReader(page.Reader{
		Server: &r.server, Slot: slot, Kind: string(sel.kind), Runner: r.cfg.Name, Stop: n.stop, Work: n.work,
		Most: sel.limit,
	})
	n.lanes = &lanes{
		cfg: &r.cfg, stop: n.stop, panics: panics, newLimit: n.newLimit(holder.NewAdvisory(&r.server, slot)),
		workers: make(permit.Semaphore, r.cfg.Workers), connections: make(permit.Semaphore, r.cfg.Connections),
		order: turn.NewOrder(int64(r.cfg.Page), sel.limit),
	}
	n.calls = &caller{
		phases: n.phases, log: r.cfg.Logger, report: n.report, panics: panics, moment: n.moment, leases: n.leases,
		pages: n.pages, page: r.cfg.Page, grace: r.cfg.Grace, workers: r.cfg.Workers,
		txns: &txn.Run{
			Server: &r.server, Records: n.records, Stop: n.stop, Halt: n.halt, Work: n.work, Grace: r.cfg.Grace,
			Moment: n.moment,
			Groups: holder.NewAdvisory(&r.server, slot), Panics: panics,
		},
	}
	return n
}

// newLimit returns what makes the limits of jobs. waits is for the locks of their places.
func (r *run) newLimit(waits *holder.Advisory) func(number int64, d *jobs.Definition, places int) *permit.Limit {
	return func(number int64, d *jobs.Definition, places int) *permit.Limit {
		l := permit.NewLimit(
			permit.Run{
				Server: &r.server, Token: r.session.Token, Stop: r.stop, Halt: r.halt, Work: r.work,
				Tried: func(lock string, got bool) {
					if got {
						waits.Got(lock)
					} else {
						waits.Wait(r.work, lock, slog.String("permits_of", d.Name))
					}
				},
			},
			permit.Rule{Job: number, Name: d.Name, AtMost: d.AtMost, PerSecond: d.PerSecond, Places: places})
		r.leases.Join(l)
		return l
	}
}

// do does the whole run. After lastTime it leaves behind statements on a dead network, which end by themselves.
func (r *run) do() (Result, error) {
	defer r.close()
	over := make(chan struct{})
	var state State
	var err error
	go func() {
		defer close(over)
		var end string
		switch end, err = r.open(); end {
		case "open":
			state, err = r.attend()
		case "busy":
			state = StateOpen
		case "done":
			state = StateDone
		}
	}()
	select {
	case <-over:
		r.endWork(nil)
		return r.finish(state, err)
	case <-r.last:
		cause := context.Cause(r.stop)
		if errors.Is(cause, context.Canceled) {
			cause = ErrStopped
		}
		return r.finish(StateOpen, fmt.Errorf("%w: the database does not answer; claims end with their leases", cause))
	}
}

// open lets the run into the slot.
func (r *run) open() (state string, err error) {
	opened, list, err := r.session.Open(r.stop, r.work, int64(r.cfg.Page))
	if err != nil {
		return "", fmt.Errorf("open: %w", pgsql.ExplainMissing(err))
	}
	r.know(list)
	r.records.Place = opened.Place
	r.report.opened(opened)
	switch {
	case opened.State == "early" && opened.Ahead > 0:
		return opened.State, earlyError{opened.Ahead}
	case opened.State == "early":
		return opened.State, errOffGrid
	}
	return opened.State, nil
}

// finish turns how the run ended into its result and error.
func (r *run) finish(state State, err error) (Result, error) {
	result := r.report.soFar()
	result.State, result.Lost = state, r.leases.Lost()
	cause := context.Cause(r.stop)
	stopped := errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)
	switch {
	case err != nil && stopped && server.Passes(err):
		return result, fmt.Errorf("%w: %w", ErrStopped, err)
	case err != nil:
		return result, err
	case cause != nil && !stopped:
		return result, cause
	case result.Abandoned > 0:
		return result, ErrAbandoned
	case result.Refused > 0:
		return result, r.report.refused()
	case cause != nil && state != StateDone:
		return result, ErrStopped
	}
	return result, nil
}

// attend works on the open slot until it is done, or until nothing is left for this runner. Then it hands back its
// claims.
func (r *run) attend() (state State, err error) {
	beats, endBeats := context.WithCancel(r.work)
	var beating sync.WaitGroup
	beating.Go(func() { r.leases.Beat(beats) })
	state, err = r.loop()
	if err != nil {
		r.halt(err)
	}
	r.crew.join()
	if r.records.HasClosed() {
		state = StateDone
	}
	endBeats()
	beating.Wait()
	if state != StateDone {
		ctx, end := context.WithTimeout(r.work, closingTime)
		defer end()
		r.leases.HandBack(ctx)
	}
	return state, err
}

// loop claims rows while there are rows and room for them, and closes the slot when there are none.
func (r *run) loop() (State, error) {
	var err error
	idle := elapsed.Now() // since when there has been nothing to do
	for err == nil && r.stop.Err() == nil {
		claimed := false
		if l := r.lanes.next(); l != nil {
			if claimed, err = r.claim(l); claimed {
				idle = elapsed.Now()
			}
			continue
		}
		if r.records.HasClosed() {
			return StateDone, nil
		}
		if r.crew.isBusy() || r.lanes.waits() {
			if !r.wait() {
				_, err = r.takeOver()
			}
			idle = elapsed.Now()
			continue
		}
		var end string
		switch end, err = r.session.Close(r.work, r.sel.leave); {
		case err != nil:
		case end == "done":
			return StateDone, nil
		case end == "busy":
			if claimed, err = r.takeOver(); claimed {
				idle = elapsed.Now()
			} else if err == nil && (!r.stays(idle) || r.lanes.isLimitReached()) {
				return StateOpen, r.noteOrphans()
			} else {
				r.wait()
			}
		case r.lanes.rests() && !r.lanes.isLimitReached(): // left, or again
			r.wait()
			err = r.look()
		case r.sel.leave || r.lanes.isLimitReached():
			return StateOpen, nil
		default:
			if err = r.look(); err == nil && r.lanes.next() == nil && !r.lanes.rests() {
				return StateOpen, nil
			}
		}
	}
	return StateOpen, err
}

// look finds the jobs of the slot that have rows to claim. It may only be called while there are no claims.
func (r *run) look() error {
	list, err := r.session.Jobs(r.work, r.work)
	if err == nil {
		r.know(list)
	}
	return err
}

// know sets the jobs of the slot. It may only be called while there are no claims, so no check reads them then.
func (r *run) know(list []session.Job) {
	known := map[int64]*jobs.Definition{}
	r.lanes.clear()
	for _, j := range list {
		def, registered := r.jobs[j.Number]
		if !registered { // when the runner was made
			def, registered = r.cfg.Registry.Lookup(j.Name)
		}
		switch {
		case !registered && j.Claimable:
			r.report.note(j.Name)
		case registered && (r.sel.job == "" || r.sel.job == def.Name):
			known[j.Number] = def
			r.lanes.add(j, def)
		}
	}
	r.records.Jobs, r.pages.Jobs = known, known
}

// noteOrphans records the jobs that are not registered here and of which a dead runner has left claims.
func (r *run) noteOrphans() error {
	names, err := r.session.Orphans(r.work)
	for _, name := range names {
		if _, registered := r.cfg.Registry.Lookup(name); !registered {
			r.report.note(name)
		}
	}
	return err
}

// stays reports whether an idle run stays at the slot. It stays for a lease, in which it would find
// out that another runner has died, and longer if rows rest that only this run may be able to
// check. Catch-up goes on to other slots, and a run that has left rows keeps the slot open itself.
func (r *run) stays(idle time.Time) bool {
	if r.sel.kind == KindCatchUp || r.report.refused() != nil {
		return time.Since(idle) <= 2*lookEvery
	}
	return time.Since(idle) <= r.cfg.Lease || r.lanes.rests()
}

// wait returns true if something has changed, and false if the run is stopped, or after lookEvery.
func (r *run) wait() bool { return r.crew.wait(r.stop, lookEvery) }

// moment returns the current moment, by which rows are judged.
func (r *run) moment() guard.Moment {
	return guard.Moment{Grid: r.Grid(), Slot: r.slot, Now: r.Now(), CaughtUp: r.sel.kind == KindCatchUp}
}

// count takes what was recorded into the report.
func (r *run) count(n row.Tally, recorded []row.Outcome) { r.report.count(n, recorded, r.records.Jobs) }

// countRefused takes a row into the report that is left in its slot. The run ends when a page of rows are.
func (r *run) countRefused(why error) {
	if n := r.report.refuse(why); n >= int64(r.cfg.Page) {
		r.halt(r.report.refused())
	}
}
