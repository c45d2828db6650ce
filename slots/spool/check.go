package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// exitTempFail is EX_TEMPFAIL of sysexits.h: the check asks for the next slot.
const exitTempFail = 75

// lockFD is where a check inherits the lock of its own executable. It is out of the way of the descriptors that
// scripts open, 3 to 9 by habit.
const lockFD = 100

// killed is how long a check that got SIGKILL may take to end before it is abandoned; parting is what one gets between
// SIGTERM and SIGKILL when the grace period of a stopped run is over.
const (
	killed  = 5 * time.Second
	parting = time.Second
)

var (
	errTimeout = errors.New("timeout")
	errIgnored = errors.New("the check, or something it has started, outlived SIGKILL and was abandoned")
)

// ending is how a check ended.
type ending struct {
	took      time.Duration
	status    *int // nil: it did not exit by itself, or did not start
	output    []byte
	abandoned bool
}

// check runs an executable and judges how it ended. It leaves one in its slot that the stop of the run has ended.
func (r *run) check(ctx context.Context, f *file) (guard.Verdict, action) {
	f.job.StartedAt, f.job.Runner = r.Now(), r.runner
	// What cannot be written now could not be recorded later either: then nothing is started.
	if err := writeJSON(sidecar(f.path), f.job); err != nil {
		r.fail(fmt.Errorf("%s is not started: %w", f.path, err))
		return guard.Verdict{}, actLeave
	}
	started := clock()
	f.ending = &ending{}
	next, err := r.execute(ctx, f)
	f.ending.took = time.Since(started)
	switch {
	case errors.Is(err, slots.ErrStopped):
		return guard.Verdict{}, actLeave
	case err != nil:
		r.cfg.Logger.WarnContext(ctx, "check failed", "slot", r.slot, "name", f.name, "error", err)
	}
	job := jobs.FutureJob{CheckCount: f.job.CheckCount, ErrorCount: f.job.ErrorCount}
	v := guard.After(f.def, r.moment(), &job, next, err)
	if v.Next.After(maxSlot) {
		v = guard.Verdict{Outcome: jobs.BeyondHorizon, Error: v.Error}
	}
	return v, actRecord
}

// execute runs an executable and returns what a check returns. slots.ErrStopped is the error of one that was cut short.
func (r *run) execute(ctx context.Context, f *file) (*time.Time, error) {
	p, err := r.start(ctx, f)
	if err != nil {
		return nil, err
	}
	over := r.over(ctx, p, time.Duration(f.job.Timeout))
	if over != nil {
		err = r.end(p, over)
	} else {
		err = p.err
	}
	f.ending.abandoned = errors.Is(err, errIgnored)
	if f.ending.abandoned {
		r.count(func() { r.result.Abandoned++ })
	}
	next, err := r.said(f.ending, p, err)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(over, errTimeout):
		err = fmt.Errorf("%w after %s: %w", over, time.Duration(f.job.Timeout), err)
	case over != nil:
		err = over
	}
	return nil, err
}

// process is a check under way.
type process struct {
	*exec.Cmd
	stdout, stderr *stream
	ended          chan struct{} // closed when the check has ended
	err            error         // of Wait, when it has
}

// start starts an executable as a process group of its own. A fork in this process may hold the executable open for
// writing for an instant, and whoever is still copying it does so for longer: it is busy, and tried again.
func (r *run) start(ctx context.Context, f *file) (*process, error) {
	for attempt := 1; ; attempt++ {
		shared := &output{}
		p := &process{stdout: &stream{output: shared}, stderr: &stream{output: shared}, ended: make(chan struct{})}
		p.Cmd = exec.CommandContext(context.WithoutCancel(ctx), f.path)
		p.Stdout, p.Stderr = p.stdout, p.stderr
		p.Env = append(os.Environ(), r.environment(f)...)
		p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		p.ExtraFiles = make([]*os.File, lockFD-3+1)
		p.ExtraFiles[lockFD-3] = f.lock
		err := p.Start()
		if err == nil {
			go func() {
				p.err = p.Wait()
				close(p.ended)
			}()
			return p, nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || attempt == 20 {
			return nil, startError(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startError says what to do about an executable that does not start.
func startError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: the first line of a script names its interpreter, as #!/bin/sh does", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the interpreter that its first line names does not exist", err)
	case errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("%w: somebody is still writing it", err)
	}
	return err
}

// environment tells a check where it stands. PRESCIENT_SPOOL_DIR is the setting that prescient spool add reads.
func (r *run) environment(f *file) []string {
	m := r.moment()
	return []string{
		"PRESCIENT_SPOOL_DIR=" + r.dir,
		"PRESCIENT_NAME=" + f.name,
		"PRESCIENT_SLOT=" + m.Slot.Format(time.RFC3339),
		"PRESCIENT_CHECK_COUNT=" + strconv.Itoa(f.job.CheckCount),
		"PRESCIENT_ERROR_COUNT=" + strconv.Itoa(f.job.ErrorCount),
		"PRESCIENT_CAUGHT_UP=" + strconv.FormatBool(m.CaughtUp),
	}
}

// over waits for a check to end. It returns why the check must be ended: its timeout, or the stop of the run and its
// grace period. A check has ended when its process has and nobody has its output open: what a script leaves in the
// background is part of it.
func (r *run) over(ctx context.Context, p *process, timeout time.Duration) error {
	limit := time.After(timeout)
	select {
	case <-p.ended:
		return nil
	case <-limit:
		return errTimeout
	case <-ctx.Done():
	}
	select {
	case <-p.ended:
		return nil
	case <-limit:
		return errTimeout
	case <-time.After(r.cfg.Grace):
		return slots.ErrStopped
	}
}

// end ends a check, and returns the error of its process.
func (r *run) end(p *process, over error) error {
	patience := r.cfg.Grace
	if errors.Is(over, slots.ErrStopped) {
		patience = min(patience, parting)
	}
	for _, last := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGTERM, patience}, {syscall.SIGKILL, killed}} {
		_ = syscall.Kill(-p.Process.Pid, last.signal) // it may have ended this moment, or belong to another user
		select {
		case <-p.ended:
			return p.err
		case <-time.After(last.patience):
		}
	}
	return errIgnored
}

// said translates how a process ended into what a check returns.
func (r *run) said(e *ending, p *process, err error) (*time.Time, error) {
	e.output = p.stdout.kept()
	if errors.Is(err, errIgnored) {
		return nil, err
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	if err == nil || exit != nil && exit.Exited() {
		e.status = new(p.ProcessState.ExitCode())
	}
	if err != nil && (e.status == nil || *e.status != exitTempFail) {
		if last := cmp.Or(p.stderr.lastLine(), p.stdout.lastLine()); last != "" {
			err = fmt.Errorf("%w: %s", err, last)
		}
		return nil, err
	}
	next, asked := p.stdout.asked()
	if next == nil && err != nil {
		next = new(r.Grid().Next(r.slot))
	}
	return next, asked
}
