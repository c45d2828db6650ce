package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/locked"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/unit"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// step is the longest pause of the loop. It bounds how late the loop notices a clock change, a
	// sleep of the machine, or the death of a runner that shares the slot.
	step = 10 * time.Second
	// firstPause is the pause after the first failed query. It doubles up to step.
	firstPause = 500 * time.Millisecond
	// warnAgain is the pause between two warnings about the rows of a job.
	warnAgain = time.Hour
	// mostWarned is how many such jobs the daemon remembers.
	mostWarned = 1000
)

// Run runs slots until ctx ends. It then returns nil once everything that was begun is recorded or
// handed back. It returns an error at once if it cannot listen on the address, or if the
// configuration is invalid. It waits for a database that does not answer. slots.ErrAbandoned means
// that the process should end with a failure.
func Run(ctx context.Context, cfg Config) error {
	d, err := newDaemon(cfg)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// run serves HTTP and runs slots.
func (d *daemon) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	all := NewMulti(reserved.Caller{}, ctx, MultiConfig{MayRead: d.cfg.MayRead, Systemd: d.cfg.Systemd, Logger: d.log})
	defer func() {
		stop()
		all.Close()
	}()
	all.add("", d)
	closeServer, err := d.serve(ctx, all.Handler())
	if err != nil {
		return err
	}
	defer closeServer()
	return d.runSlots(ctx)
}

func (d *daemon) runSlots(ctx context.Context) error {
	ctx, d.stop = context.WithCancel(ctx)
	defer d.stop()
	for ctx.Err() == nil {
		pause, err := d.runOnce(ctx)
		d.wait(ctx, d.recordAnswer(ctx, pause, err))
	}

	d.log.InfoContext(ctx, "daemon is stopping; running checks get the grace period")
	d.mu.Lock()
	d.stopping = true
	d.mu.Unlock()
	d.work.Wait()
	d.log.InfoContext(ctx, "daemon has stopped")
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// runOnce asks the database for the time, and begins what is due. It returns how long nothing else
// will be due.
func (d *daemon) runOnce(ctx context.Context) (pause time.Duration, err error) {
	setting, err := pgsql.ReadSettingToWrite(reserved.Caller{}, ctx, d.cfg.Runner.DB, d.schema)
	if err != nil {
		return 0, err
	}
	now := setting.Now()
	if d.cfg.Runner.Now != nil {
		now = d.cfg.Runner.Now()
	}
	next := setting.Grid.Next(now).Sub(now)
	d.enter(setting.Grid, setting.Grid.Floor(now), next)
	d.beginRun(ctx)
	d.beginCatchUp(ctx)
	return min(step, next), nil
}

// recordAnswer records the result of a query, and logs when the database stops or starts to answer.
// It returns how long to pause.
func (d *daemon) recordAnswer(ctx context.Context, pause time.Duration, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	d.mu.Lock()
	was, ready, since := d.down, d.ready, d.downSince
	d.turned, d.down, d.ready = elapsed.Now(), err, d.ready || err == nil
	if err != nil && was == nil {
		d.downSince, d.failures = d.turned, 0
	}
	if err != nil {
		pause = min(step, firstPause<<min(d.failures, 10))
		d.failures++
	}
	missed := d.boundaryPassed(err)
	d.mu.Unlock()
	if !missed.IsZero() {
		d.work.Go(func() { d.notBegun(ctx, missed, err) })
	}
	switch {
	case err != nil && was == nil:
		d.log.ErrorContext(ctx, "the database cannot be used; trying again", "error", err)
	case err == nil && was != nil:
		d.log.InfoContext(ctx, "the database can be used again", "after", time.Since(since))
	}
	if err == nil && !ready {
		d.log.InfoContext(ctx, "daemon is ready")
	}
	return pause
}

// boundaryPassed returns the newest slot that has begun while the database was unreachable, as far
// as this process can tell, each slot once. Otherwise it returns the zero time. Call it with mu
// held.
func (d *daemon) boundaryPassed(err error) (slot time.Time) {
	for ; err != nil && !d.boundary.IsZero() && !d.turned.Before(d.boundary); d.boundary = d.boundary.Add(d.grid.Width()) {
		slot = d.grid.Add(d.current, int(d.boundary.Sub(d.entered)/d.grid.Width())+1)
	}
	return slot
}

// notBegun reports the run of a slot that could not begin.
func (d *daemon) notBegun(ctx context.Context, slot time.Time, err error) {
	result := slots.Result{Slot: slot, Kind: slots.KindRun}
	d.observe(ctx, result, err)
	d.cfg.AfterRun(ctx, result, err)
}

// observe reports a run to the observer that no runner reports, and logs its panic instead of ending the process.
func (d *daemon) observe(ctx context.Context, result slots.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			unit.NewPanics(d.log).Watcher(ctx, "Observer.Ran", p, debug.Stack())
		}
	}()
	if o := d.cfg.Runner.Observer; o != nil {
		o.Ran(result, err)
	}
}

// wait returns after pause, when the loop is woken, or when ctx ends.
func (d *daemon) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(max(pause, time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	case <-ctx.Done():
	}
}

// beginRun begins the run of the current slot, unless it is running or over, or must wait for
// another run.
func (d *daemon) beginRun(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slot := d.current
	switch {
	case d.done.Equal(slot) || d.running[slot]:
		return
	case len(d.running) >= d.cfg.Slots:
		d.late = slot
		return
	}
	d.late = time.Time{}
	d.running[slot] = true
	d.work.Go(func() {
		d.cfg.BeforeRun(ctx, slot)
		result, err := d.runSlot(ctx, slot)
		d.endRun(ctx, result, err)
	})
}

func (d *daemon) runSlot(ctx context.Context, slot time.Time) (slots.Result, error) {
	r, err := slots.NewRunner(ctx, d.cfg.Runner)
	if err != nil {
		result := slots.Result{Slot: slot, Kind: slots.KindRun}
		d.observe(ctx, result, stoppedBy(ctx, false, err))
		return result, err
	}
	result, err := r.Run(ctx, slot)
	if errors.Is(err, phase.ErrBeforeLedger) { // the first slot of the ledger has begun meanwhile
		return slots.Result{Slot: slot, Kind: slots.KindRun, State: slots.StateDone}, nil
	}
	return result, err
}

// endRun records the result of a run. If the run left the slot open, because of other runners or an
// error, a later turn of the loop begins it again. If the database refuses to record rows, or other
// sessions have locked rows, catch-up takes the slot, which comes less often.
func (d *daemon) endRun(ctx context.Context, result slots.Result, err error) {
	err = stoppedBy(ctx, result.State != "", err)
	d.mu.Lock()
	delete(d.running, result.Slot)
	// catch-up tries those rows
	done := err == nil && result.State == slots.StateDone || errors.Is(err, slots.ErrRefused) ||
		errors.Is(err, slots.ErrLocked)
	if done {
		d.done, d.catchUp.due = result.Slot, true
	}
	if !errors.Is(err, slots.ErrStopped) {
		d.last, d.lastErr = &result, err
	}
	more := done || !d.late.IsZero() // the loop has work to begin
	d.mu.Unlock()
	d.logRun(ctx, result, err)
	d.cfg.AfterRun(ctx, result, err)
	d.give(ctx, err)
	if more {
		d.wakeUp()
	}
}

func (d *daemon) logRun(ctx context.Context, result slots.Result, err error) {
	d.warnNotRegistered(ctx, result)
	switch {
	case locked.Only(err):
		d.log.LogAttrs(ctx, slog.LevelWarn, "slot run left rows to catch-up", slog.Any("", result), slog.Any("error", err))
	case err != nil && !errors.Is(err, slots.ErrStopped):
		d.log.LogAttrs(ctx, slog.LevelError, "slot run failed", slog.Any("", result), slog.Any("error", err))
	case result.Checked > 0:
		d.log.LogAttrs(ctx, slog.LevelInfo, "slot run", slog.Any("", result))
	default: // an empty slot, or other runners work on it
		d.log.LogAttrs(ctx, slog.LevelDebug, "slot run", slog.Any("", result))
	}
}

// warnNotRegistered logs the jobs whose rows have left a slot open, each job once an hour, because the slot is tried
// again and again. It logs up to mostWarned jobs an hour, because an application may enqueue rows of any number of
// names.
func (d *daemon) warnNotRegistered(ctx context.Context, result slots.Result) {
	if result.State != slots.StateOpen {
		return
	}
	d.mu.Lock()
	now := elapsed.Now()
	maps.DeleteFunc(d.warned, func(_ string, at time.Time) bool { return now.Sub(at) >= warnAgain })
	names := slices.DeleteFunc(slices.Clone(result.Unknown), func(job string) bool {
		_, warned := d.warned[job]
		return warned
	})
	names = names[:min(len(names), mostWarned-len(d.warned))]
	for _, job := range names {
		d.warned[job] = now
	}
	d.mu.Unlock()
	if len(names) > 0 {
		d.log.WarnContext(ctx, "rows are left, and their slot open, since their jobs are not registered here: "+
			"run it with a binary that has them, or cancel the rows if a name is wrong",
			"slot", result.Slot, "jobs", spoken.Some(names))
	}
}

// give handles the error of a run or a catch-up. Abandoned checks stop the daemon. While the daemon
// stops, outcomes that could not be recorded make it fail.
func (d *daemon) give(ctx context.Context, err error) {
	abandoned := errors.Is(err, slots.ErrAbandoned)
	if err == nil || !abandoned && (ctx.Err() == nil || errors.Is(err, slots.ErrStopped)) {
		return
	}
	d.mu.Lock()
	d.failed = errors.Join(d.failed, err)
	d.mu.Unlock()
	if abandoned {
		d.stop()
	}
}

// stoppedBy returns ErrStopped if a slot was not opened because ctx ended, otherwise err.
func stoppedBy(ctx context.Context, opened bool, err error) error {
	if err != nil && ctx.Err() != nil && !opened {
		return slots.ErrStopped
	}
	return err
}
