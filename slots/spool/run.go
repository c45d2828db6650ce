package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// Result is what one run did for one slot.
type Result struct {
	Slot time.Time
	Kind slots.Kind
	// State is slots.StateOpen when another run has the slot, or executables were left in it.
	State slots.State
	// Held tells that another run has the slot, and this one did nothing.
	Held bool
	// Checked = Finished + Rescheduled + Failed: the executables whose outcome was recorded.
	Checked     int
	Finished    int
	Rescheduled int
	Failed      int
	// Yielded executables were taken away or replaced while they were checked, and are left at that.
	Yielded int
	// Running checks were started by a run that died since. They are left alone, and checked again when they have ended.
	Running int
	// Refused entries of the slot's directory are never run; the log says why.
	Refused int
	// Abandoned checks outlived SIGKILL, as one of another user does.
	Abandoned int
	Took      time.Duration
}

// LogValue is the result as the attributes of a log line.
func (r Result) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Time("slot", r.Slot), slog.String("kind", string(r.Kind)), slog.String("state", string(r.State)),
		slog.Bool("held", r.Held), slog.Int("checked", r.Checked), slog.Int("finished", r.Finished),
		slog.Int("rescheduled", r.Rescheduled), slog.Int("failed", r.Failed), slog.Int("yielded", r.Yielded),
		slog.Int("running", r.Running), slog.Int("refused", r.Refused), slog.Int("abandoned", r.Abandoned),
		slog.Duration("took", r.Took),
	)
}

// Run runs a slot: every executable in its directory, up to Config.Workers at once. It waits for a boundary that is at
// most Config.Early ahead. A slot without a directory, and one that another run has, is nothing to do.
//
// When ctx ends the run stops: it gives running checks Config.Grace, records those that end by then, ends the others
// and leaves them in the slot, and returns slots.ErrStopped. An outcome that cannot be recorded stops the run, too:
// nothing more is started. A check that outlived SIGKILL is slots.ErrAbandoned. The result is valid beside any error.
func (s *Spool) Run(ctx context.Context, slot time.Time) (Result, error) {
	slot = slot.UTC()
	if err := slots.Await(ctx, s.Grid(), slot, s.cfg.Early, s.Now); err != nil {
		return Result{Slot: slot, Kind: slots.KindRun}, err
	}
	return s.run(ctx, slot, slots.KindRun, check)
}

// judge decides about an executable before its check. The verdict is for actRecord.
type judge func(d *jobs.Definition, m guard.Moment) (guard.Verdict, action)

type action int

const (
	actCheck  action = iota // start it
	actRecord               // record the verdict without
	actLeave                // leave it in its slot
)

// check is the judge of a run: guards first, then the executable.
func check(d *jobs.Definition, m guard.Moment) (guard.Verdict, action) {
	if v, ok := guard.Before(d, m); !ok {
		return v, actRecord
	}
	return guard.Verdict{}, actCheck
}

// run is one run of a slot.
type run struct {
	*Spool
	slot  time.Time
	judge judge

	mu     sync.Mutex
	result Result
	left   int   // executables that stay in the slot
	err    error // of recording: nothing more is started
}

func (s *Spool) run(ctx context.Context, slot time.Time, kind slots.Kind, judge judge) (Result, error) {
	started := clock()
	r := &run{Spool: s, slot: slot, judge: judge, result: Result{Slot: slot, Kind: kind, State: slots.StateDone}}
	err := r.whole(ctx)
	if r.result.Held || r.left > 0 {
		r.result.State = slots.StateOpen
	}
	r.result.Took = time.Since(started)
	if err != nil {
		return r.result, fmt.Errorf("run slot %s: %w", slot.Format(time.RFC3339), err)
	}
	return r.result, nil
}

// whole goes once through the slot's directory, with its lock.
func (r *run) whole(ctx context.Context) error {
	dir, err := r.claimSlot()
	switch {
	case errors.Is(err, errHeld):
		r.result.Held = true
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer release(dir)
	entries, err := readDir(r.slotDir(r.slot))
	if err != nil {
		return fmt.Errorf("list executables: %w", err)
	}
	files, _ := content(entries)
	r.each(ctx, files)
	errs := []error{r.err, r.sweep()}
	if ctx.Err() != nil && r.left > 0 {
		errs = append(errs, slots.ErrStopped)
	}
	if r.result.Abandoned > 0 {
		errs = append(errs, slots.ErrAbandoned)
	}
	return errors.Join(errs...)
}

// claimSlot takes the slot's lock, which dies with this process.
func (r *run) claimSlot() (*os.File, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	info, err := os.Lstat(r.slotDir(r.slot))
	if err != nil {
		return nil, err
	}
	if why := r.slotRefusal(info); why != "" {
		return nil, fmt.Errorf("%s: %s", r.slotDir(r.slot), why)
	}
	return claim(r.slotDir(r.slot))
}

// each runs the executables, so many at once.
func (r *run) each(ctx context.Context, files []fs.FileInfo) {
	places := make(chan struct{}, r.cfg.Workers)
	var running sync.WaitGroup
	defer running.Wait()
	for i, info := range files {
		if why := refusal(info); why != "" {
			r.refuse(ctx, info.Name(), why)
			continue
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil || r.failed() {
			r.count(func() { r.left += len(files) - i })
			return
		}
		running.Go(func() {
			defer func() { <-places }()
			r.one(ctx, info.Name())
		})
	}
}

// one deals with one executable.
func (r *run) one(ctx context.Context, name string) {
	f, err := r.claim(name)
	switch {
	case errors.Is(err, errHeld):
		r.count(func() { r.result.Running++; r.left++ })
		r.cfg.Logger.WarnContext(ctx, "still running since a run that died; it is left alone", "slot", r.slot, "name", name)
		return
	case errors.Is(err, fs.ErrNotExist): // its owner took it away
		return
	case err != nil:
		r.refuse(ctx, name, err.Error())
		return
	}
	v, act := r.judge(f.def, r.moment())
	if act == actCheck {
		v, act = r.check(ctx, f)
	}
	if act == actLeave {
		f.release()
		r.count(func() { r.left++ })
		return
	}
	if err := r.record(ctx, f, v); err != nil {
		r.fail(fmt.Errorf("record %s: %w", f.path, err))
		r.count(func() { r.left++ })
	}
}

// file is an executable that this run has the lock of.
type file struct {
	name, path string
	lock       *os.File
	job        Job
	def        *jobs.Definition
	ending     *ending // nil: not checked
}

// claim takes the lock of an executable, which the check inherits: it lives as long as either of them.
func (r *run) claim(name string) (*file, error) {
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := &file{name: name, path: r.path(r.slot, name)}
	if f.job, err = readJob(f.path); err != nil {
		return nil, err
	}
	f.def = f.job.definition(name)
	f.lock, err = claim(f.path)
	return f, err
}

// release gives the lock back; that of an abandoned check stays with the check.
func (f *file) release() {
	if f.ending != nil && f.ending.abandoned {
		_ = f.lock.Close()
		return
	}
	release(f.lock)
}

// mine tells whether the executable is still where and what it was when it was claimed.
func (f *file) mine() bool {
	now, err := os.Lstat(f.path)
	then, thenErr := f.lock.Stat()
	return err == nil && thenErr == nil && os.SameFile(now, then)
}

func (r *run) moment() guard.Moment {
	return guard.Moment{Grid: r.Grid(), Slot: r.slot, Now: r.Now(), CaughtUp: r.result.Kind == slots.KindCatchUp}
}

func (r *run) count(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *run) refuse(ctx context.Context, name, why string) {
	r.count(func() { r.result.Refused++; r.left++ })
	r.cfg.Logger.WarnContext(ctx, "not run", "slot", r.slot, "name", name, "problem", why)
}

func (r *run) fail(err error) {
	r.count(func() { r.err = errors.Join(r.err, err) })
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// sweep removes sidecars whose executable is gone, and the slot's directory when nothing is left in it.
func (r *run) sweep() error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir := r.slotDir(r.slot)
	entries, err := readDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // its owner took it away
		return nil
	case err != nil:
		return fmt.Errorf("tidy up: %w", err)
	}
	files, sidecars := content(entries)
	owners := map[string]bool{}
	for _, info := range files {
		owners[info.Name()] = true
	}
	for _, info := range sidecars {
		if !owners[ownerOf(info.Name())] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, info.Name())))
		}
	}
	if len(files) == 0 && err == nil {
		err = os.Remove(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // something was put there this moment
		return fmt.Errorf("tidy up: %w", err)
	}
	return nil
}
