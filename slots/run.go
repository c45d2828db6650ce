package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/storeid"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/lane"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/round"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/txn"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// idleEvery is how often an idle runner looks for claims to take over.
const idleEvery = 500 * time.Millisecond

// earlyError is returned for a slot that has not begun by the clock that slots are compared with.
type earlyError struct{ ahead time.Duration }

func (e earlyError) Error() string {
	return fmt.Sprintf("the slot is %s ahead by the database's clock: a slot is never run early", spoken.Duration(e.ahead))
}

// errOffGrid is returned for an instant that was a slot when the runner was made.
var errOffGrid = errors.New("it is no slot since the width was changed: its rows wait in the slots after it")

// selection tells a run which rows to take, how to judge each of them, and what it shares with other runs.
type selection struct {
	kind   Kind
	job    string // the only job to take; empty: all
	limit  int64  // rows to take at the most; 0: no limit
	skips  bool   // the judge may skip rows
	byHand bool   // an operator asked for it: no misfire policy applies
	judge  judge

	*beside
	letNext   func() // lets the next slot begin: see lull.look. Maybe called again and again
	untilNext bool   // the run waits for locks until shortly before the next slot
}

// judge decides about a row before its check. A verdict is recorded without a check. A row that it
// skips stays in the slot. Otherwise the job's function is called.
type judge func(d *jobs.Definition, row *jobs.FutureJob, m guard.Moment) (verdict *guard.Verdict, skips bool)

// check is the judge of a run: guards first, then the job's function.
func check(d *jobs.Definition, _ *jobs.FutureJob, m guard.Moment) (verdict *guard.Verdict, skips bool) {
	if v, ok := guard.Before(d, m); !ok {
		return new(v), false
	}
	return nil, false
}

// run is the work of one runner on one slot. One goroutine decides what to claim, in loop, and each
// claim has a goroutine of its own, in work.do. They share the bounds on concurrent work, the
// leases, and the result.
type run struct {
	*Runner
	ctx *phase.Contexts

	slot    time.Time
	sel     selection
	report  *report
	session *claim.Session
	leases  *claim.Keeper
	lanes   *lane.Lanes
	calls   *round.Caller
	txns    *txn.Options
	records *record.Recorder
	tasks   *tasks
}

func newRun(ctx context.Context, r *Runner, slot time.Time, sel selection) *run {
	ctx = storeid.With(ctx, r.setting.Store)
	n := &run{Runner: r, ctx: phase.New(ctx, r.cfg.Grace), slot: slot, sel: sel, tasks: newTasks()}
	panics, known := unit.NewPanics(r.cfg.Logger), new(row.Jobs)
	n.report = &report{
		cfg: &r.cfg, ctx: n.ctx.Stop, panics: panics, known: known, telling: r.telling,
		result: Result{Slot: slot, Kind: sel.kind}, unknown: map[string]bool{},
	}
	n.session = &claim.Session{
		Contexts: n.ctx, Server: &r.server, Slot: slot, Token: claim.NewToken(), Runner: r.cfg.Name,
		Entry: claim.Entry{Kind: string(sel.kind), ByHand: sel.byHand, Able: r.cfg.Workers},
		Most:  sel.limit, Clock: r.replayed, Jobs: known, Turn: sel.turn,
	}
	n.leases = claim.NewKeeper(n.session)
	n.lanes = lane.New(lane.Options{
		Contexts: n.ctx, Panics: panics, Page: r.cfg.Page, Most: sel.limit, Bounds: sel.bounds,
		NewLimit: n.newLimit(),
	})
	n.records = record.New(&record.Writer{Session: n.session, Now: r.Now}, record.Options{
		Leases: n.leases, Writing: sel.writing, Moment: n.moment, Count: n.report.count, CountRefused: n.countRefused,
	})
	n.txns = &txn.Options{
		Server: &r.server, Contexts: n.ctx, Records: n.records, Grace: r.cfg.Grace,
		Groups: db.NewAdvisory(&r.server, slot), Panics: panics,
	}
	n.calls = &round.Caller{
		Contexts: n.ctx, Log: r.cfg.Logger, Panics: panics, Moment: n.moment, Session: n.session, Leases: n.leases,
		Rows: r.cfg.Page, Grace: r.cfg.Grace, Abandoned: n.countAbandoned,
	}
	return n
}

// newLimit returns the function that makes the limits of jobs.
func (r *run) newLimit() func(number int64, d *jobs.Definition, atOnce int) *permit.Limit {
	o := permit.Options{
		Server: &r.server, Contexts: r.ctx, Token: r.session.Token, Locks: db.NewAdvisory(&r.server, r.slot),
		Inside: &r.sel.inside,
	}
	return func(number int64, d *jobs.Definition, atOnce int) *permit.Limit {
		l := permit.NewLimit(o, permit.Rule{
			Job: number, Name: d.Name, AtMost: d.AtMost, PerSecond: d.PerSecond, AtOnce: atOnce,
		})
		r.leases.Join(l)
		return l
	}
}

// do does the whole run. After phase.LastTime it leaves behind statements on a dead network, which end by themselves.
func (r *run) do() (Result, error) {
	defer r.ctx.End()
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
			r.report.held()
			state = StateOpen
		case "done":
			state = StateDone
		}
	}()
	select {
	case <-over:
		r.ctx.EndWork()
		return r.finish(state, err)
	case <-r.ctx.Last:
		cause := cmp.Or(r.ctx.Failure(), ErrStopped)
		return r.finish(StateOpen, fmt.Errorf("%w: the database does not answer; claims end with their leases", cause))
	}
}

// open lets the run into the slot.
func (r *run) open() (state string, err error) {
	opened, list, err := r.session.Open(int64(r.cfg.Page), r.registered())
	if err != nil {
		return "", fmt.Errorf("open: %w", pg.ExplainMissing(err))
	}
	r.know(list)
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
	err = r.failure(state, err)
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrLocked) {
		result.Held = true
	}
	if errors.Is(err, ErrLocked) {
		result.LockedBy = r.report.holder.name()
	}
	switch {
	case result.Abandoned == 0 || errors.Is(err, ErrAbandoned):
	case err == nil || err == ErrStopped: //nolint:errorlint // it says no more than that
		err = ErrAbandoned
	case errors.Is(err, ErrRefused) || errors.Is(err, ErrLocked):
		err = errors.Join(ErrAbandoned, err)
	default:
		err = abandonedError{err}
	}
	return result, err
}

// failure returns why the run has not done its slot, apart from abandoned checks.
func (r *run) failure(state State, err error) error {
	cause := r.ctx.Failure()
	stopped := cause == nil && r.ctx.Stop.Err() != nil
	refused := r.report.refused()
	switch {
	case err != nil && stopped && db.Retryable(err):
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case err != nil:
		return err
	case cause != nil && !errors.Is(cause, ErrLocked):
		return cause
	case refused != nil:
		return refused
	case errors.Is(cause, ErrLocked) && state != StateDone: // the last try may have been the good one
		return fmt.Errorf("%w: %s", ErrLocked, r.report.holder.name())
	case stopped && state != StateDone:
		return ErrStopped
	}
	return nil
}

// abandonedError is the error of a run that failed, and left checks behind besides. Catch-up goes on after ErrAbandoned
// alone, but not after this error.
type abandonedError struct{ error }

func (e abandonedError) Error() string { return fmt.Sprintf("%v; besides, %v", e.error, ErrAbandoned) }

func (e abandonedError) Unwrap() []error { return []error{e.error, ErrAbandoned} }

// attend works on the open slot until it is done, or until nothing is left for this runner. Then it hands back its
// claims.
func (r *run) attend() (state State, err error) {
	beats, endBeats := context.WithCancel(r.ctx.Work)
	var beating sync.WaitGroup
	beating.Go(func() { r.leases.Beat(beats) })
	state, err = r.loop()
	if err != nil {
		r.ctx.Halt(err)
	}
	r.tasks.join()
	if r.records.HasClosed() {
		state = StateDone
	}
	endBeats()
	beating.Wait()
	if state != StateDone {
		ctx, end := context.WithTimeout(r.ctx.Work, phase.ClosingTime)
		defer end()
		r.leases.HandBack(ctx)
	}
	return state, err
}

// loop claims rows while there are rows and room for them, and closes the slot when there are none.
func (r *run) loop() (State, error) {
	var err error
	idle := elapsed.Now() // since when there has been nothing to do
	var pauses lull
	for err == nil && r.ctx.Stop.Err() == nil {
		claimed := false
		if l := r.lanes.Next(elapsed.Now()); l != nil {
			if claimed, err = r.claim(l); claimed {
				idle = elapsed.Now()
			}
			continue
		}
		if r.records.HasClosed() {
			return StateDone, nil
		}
		if left := pauses.look(r); left != nil {
			r.ctx.Halt(left)
			continue
		}
		if r.tasks.isBusy() || r.lanes.Waits(elapsed.Now()) {
			if !r.tasks.wait(r.ctx.Stop) {
				_, err = r.takeOver()
			}
			idle = elapsed.Now()
			continue
		}
		var end string
		switch end, err = r.session.Close(r.sel.skips); {
		case err != nil:
		case end == "done":
			return StateDone, nil
		case end == "busy":
			if claimed, err = r.takeOver(); claimed {
				idle = elapsed.Now()
			} else if err == nil && (!r.stays(idle) || r.lanes.IsLimitReached()) {
				r.report.held()
				return StateOpen, r.noteOrphans()
			} else {
				r.tasks.wait(r.ctx.Stop)
			}
		case r.lanes.IsPaused(elapsed.Now()) && !r.lanes.IsLimitReached(): // left, or again
			r.tasks.wait(r.ctx.Stop)
			err = r.findJobs()
		case r.sel.skips || r.lanes.IsLimitReached():
			return StateOpen, nil
		default:
			if err = r.findJobs(); err == nil && r.lanes.Next(elapsed.Now()) == nil && !r.lanes.IsPaused(elapsed.Now()) {
				return StateOpen, nil
			}
		}
	}
	return StateOpen, err
}

// findJobs finds the jobs of the slot that have rows to claim. It may only be called while there are no claims.
func (r *run) findJobs() error {
	list, err := r.session.ListJobs(r.registered())
	if err == nil {
		r.know(list)
	}
	return err
}

// registered returns the jobs that the run can check.
func (r *run) registered() (known claim.Known) {
	known.Numbers = slices.Collect(maps.Keys(r.jobs))
	for def := range r.cfg.Registry.All() {
		known.Names = append(known.Names, def.Name)
	}
	return known
}

// know sets the jobs of the slot. It may only be called while there are no claims, so no check reads them then.
func (r *run) know(list []claim.Job) {
	known, missed := map[int64]*jobs.Definition{}, map[string]bool{}
	r.lanes.Clear()
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
			if j.Missed {
				missed[def.Name] = true
			}
			r.lanes.Add(j.Number, def, j.Claimable)
		}
	}
	r.session.Jobs.Set(known, missed)
}

// noteOrphans records the jobs that are not registered here and of which a dead runner has left claims.
func (r *run) noteOrphans() error {
	names, err := r.session.Orphans()
	for _, name := range names {
		if _, registered := r.cfg.Registry.Lookup(name); !registered {
			r.report.note(name)
		}
	}
	return err
}

// stays reports whether an idle run stays at the slot. It stays for a lease, in which it would find
// out that another runner has died, and longer if rows wait for a permit that only this run may be able to
// check. Catch-up goes on to other slots, and a run that has left rows keeps the slot open itself.
func (r *run) stays(idle time.Time) bool {
	if r.sel.kind == KindCatchUp || r.report.refused() != nil {
		return time.Since(idle) <= 2*idleEvery
	}
	return time.Since(idle) <= r.cfg.Lease || r.lanes.IsPaused(elapsed.Now())
}

// moment returns the current moment, by which rows are judged. A row that a run was to check in time is no misfire for
// the catch-up that checks it later: a run has left it, or it is a straggler.
func (r *run) moment() guard.Moment {
	m := guard.Moment{Grid: r.Grid(), Slot: r.slot, Now: r.Now()}
	if r.sel.kind == KindCatchUp && !r.sel.byHand {
		m.CaughtUp, m.Missed = r.session.Found.Kind == string(KindCatchUp), r.session.Jobs.Missed()
	}
	return m
}

// countRefused takes a row into the report that is left in its slot. The run ends when a page of rows are.
func (r *run) countRefused(why error) {
	if n := r.report.refuse(why); n >= int64(r.cfg.Page) {
		r.ctx.Halt(r.report.refused())
	}
}

// countAbandoned takes an abandoned check into the report. The run ends once as many checks are abandoned as there are
// workers.
func (r *run) countAbandoned() {
	if n := r.report.abandon(); n >= r.cfg.Workers {
		r.ctx.Halt(fmt.Errorf("%w: %d of them, as many as there are workers", ErrAbandoned, r.cfg.Workers))
	}
}
