package spool

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// The guards of every file.
const (
	Retry     = defaults.Retry      // errors in a row that are retried; the next one fails the file
	MaxChecks = 100                 // checks without an error; if the last one asks for another, the file fails
	Timeout   = 10 * time.Minute    // of a check
	Horizon   = jobs.DefaultHorizon // how far ahead of now a slot may be
)

const (
	doneDir, failedDir, outputDir = "done", "failed", "output"

	exitTempFail = 75              // EX_TEMPFAIL of sysexits.h: the check asks for the next slot
	lockFD       = 100             // where a check inherits the lock, beyond the descriptors that scripts use
	termWait     = 5 * time.Second // between SIGTERM and SIGKILL
	maxLine      = 64 << 10        // bytes of a line of a check's output that are read
	nextPrefix   = "next:"
)

// ErrHeld is returned by Run if another run is at work in the spool, or a check whose run was
// killed.
var ErrHeld = errors.New("another run is at work in the spool, or a check whose run was killed")

var errTimeout = errors.New("timeout")

// Run runs the files of the current slot. With catchUp it also runs those of earlier slots, the
// oldest slot first. It goes on with all slots that begin meanwhile, because their own runs find the
// lock held. Returns each file that it ran or refused, also beside an error.
//
// When ctx ends, Run waits Config.Grace for the running check, ends it, and returns
// slots.ErrStopped. A check that Run has ended is not finished, even if it exits with 0. An outcome
// that cannot be recorded stops Run.
func (s *Spool) Run(ctx context.Context, catchUp bool) (ran []File, err error) {
	lock, err := s.lock()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrHeld
	} else if err != nil {
		return nil, err
	}
	defer func() {
		_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) // a process that a check left behind has the descriptor, too
		_ = lock.Close()
	}()
	began := s.cfg.Grid.Floor(s.Now())
	for last, more := "", true; more; {
		more = false
		files, err := s.Files()
		if err != nil {
			return ran, err
		}
		current, missed := s.cfg.Grid.Floor(s.Now()), 0
		for _, f := range files {
			switch {
			case f.Slot.IsZero() || f.path <= last || f.Slot.After(current):
				continue
			case f.Slot.Before(began) && !catchUp:
				missed++
				continue
			case ctx.Err() != nil:
				return ran, slots.ErrStopped
			}
			err := s.one(ctx, lock, &f)
			ran, last, more = append(ran, f), f.path, true
			if err != nil {
				return ran, fmt.Errorf("run %s: %w", f.path, err)
			}
		}
		if missed > 0 && !more {
			s.cfg.Logger.WarnContext(ctx, "files of earlier slots wait: run them with --catch-up", "files", missed)
		}
	}
	return ran, nil
}

// lock takes the lock of the spool. The kernel frees it when the run and its check have ended.
func (s *Spool) lock() (*os.File, error) {
	// no other user can hold it
	file, err := os.OpenFile(filepath.Join(s.cfg.Dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the spool: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock the spool: flock %s: %w", file.Name(), err)
	}
	return file, nil
}

// one runs a file unless it is refused, and removes its folder if nothing is left in it.
func (s *Spool) one(ctx context.Context, lock *os.File, f *File) (err error) {
	if f.State != StateRefused {
		f.State = StateLeft
		err = s.run(ctx, lock, f)
		_ = os.Remove(filepath.Dir(f.path))
	}
	if f.Problem != "" {
		s.cfg.Logger.WarnContext(ctx, "problem with a file", "file", f.path,
			"became", string(f.State), "problem", f.Problem)
	}
	return err
}

// run checks a file, and moves it to where its outcome says. The rename is the commit.
func (s *Spool) run(ctx context.Context, lock *os.File, f *File) error {
	plain, job := parseName(f.Name)
	folder := filepath.Base(filepath.Dir(f.path))
	output := filepath.Join(s.cfg.Dir, outputDir, folder)
	if err := os.MkdirAll(output, 0o755); err != nil {
		return fmt.Errorf("not started: %w", err)
	}
	// A check that is repeated in its slot adds to its output.
	out, err := os.OpenFile(filepath.Join(output, plain), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("not started: %w", err)
	}
	defer func() {
		_, _ = fmt.Fprintln(out, strings.TrimRight("prescient: "+string(f.State)+" "+f.Problem, " "))
		_ = out.Close()
	}()
	next, err := s.check(ctx, lock, f, out)
	now, gone := os.Lstat(f.path)
	switch {
	case errors.Is(err, slots.ErrStopped):
		f.Problem = "the run was stopped"
		return err
	case errors.Is(err, syscall.ETXTBSY):
		f.Problem = "a process is still writing it"
		return nil
	case gone != nil || !os.SameFile(now, f.info) || !now.ModTime().Equal(f.info.ModTime()):
		f.Problem = "it was removed or replaced while it ran"
		return nil
	}
	d := &jobs.Definition{MaxChecks: MaxChecks, Horizon: Horizon, Retry: Retry, MaxBackOff: defaults.MaxBackOff}
	v := guard.After(d, guard.Moment{Grid: s.cfg.Grid, Slot: f.Slot, Now: s.Now()}, &job, next, err)
	f.Problem = v.Error
	switch {
	case v.Outcome == jobs.OutcomeDone:
		return f.move(StateDone, filepath.Join(s.cfg.Dir, doneDir, folder), plain, "")
	case v.Outcome != "":
		f.Problem = cmp.Or(v.Error, string(v.Outcome))
		return f.move(StateFailed, filepath.Join(s.cfg.Dir, failedDir, folder), plain, "")
	case v.Move == guard.MoveRetry:
		job.ErrorCount++
	default:
		job.CheckCount, job.ErrorCount = job.CheckCount+1, 0
	}
	counts := fmt.Sprintf(",checks=%d,errors=%d", job.CheckCount, job.ErrorCount)
	f.Slot = v.Next
	return f.move(StateMoved, filepath.Join(s.cfg.Dir, slotName(v.Next)), plain, counts)
}

// counters matches what a run adds to a name: the checks without an error, and the errors in a row
// since the last one.
var counters = regexp.MustCompile(`^(.+),checks=(\d{1,9}),errors=(\d{1,9})$`)

// parseName returns the name of a file as it was added, and its counts.
func parseName(name string) (plain string, job jobs.FutureJob) {
	m := counters.FindStringSubmatch(name)
	if m == nil {
		return name, job
	}
	job.CheckCount, _ = strconv.Atoi(m[2])
	job.ErrorCount, _ = strconv.Atoi(m[3])
	return m[1], job
}

// move moves a file into a folder. If the name is taken there, it becomes plain.2 and so on.
func (f *File) move(state State, dir, plain, counts string) error {
	path := filepath.Join(dir, plain+counts)
	for n := 2; ; n++ {
		if _, err := os.Lstat(path); err != nil { // if it is another error than that nothing is there, MkdirAll has it, too
			break
		}
		path = filepath.Join(dir, fmt.Sprintf("%s.%d%s", plain, n, counts))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(f.path, path); err != nil {
		return err
	}
	f.Name, f.State = filepath.Base(path), state
	return nil
}

// check starts a file, waits for its end, and returns what a check returns. Returns
// slots.ErrStopped if the run ended it, unless it asks for another check.
func (s *Spool) check(ctx context.Context, lock *os.File, f *File, out *os.File) (*time.Time, error) {
	begin, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	limit, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer time.AfterFunc(s.cfg.Timeout, func() { end(errTimeout) }).Stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.Grace, func() { end(slots.ErrStopped) }) })()
	plain, job := parseName(f.Name)
	p := exec.CommandContext(limit, f.path)
	p.Stdout, p.Stderr = out, out
	p.Env = append(os.Environ(), "PRESCIENT_SPOOL_DIR="+s.cfg.Dir,
		"PRESCIENT_NAME="+plain, "PRESCIENT_SLOT="+f.Slot.Format(time.RFC3339),
		"PRESCIENT_CHECK_COUNT="+strconv.Itoa(job.CheckCount), "PRESCIENT_ERROR_COUNT="+strconv.Itoa(job.ErrorCount))
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.ExtraFiles = make([]*os.File, lockFD-3+1)
	p.ExtraFiles[lockFD-3] = lock
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGTERM) }
	p.WaitDelay = termWait
	if err := p.Run(); p.ProcessState == nil {
		return nil, fmt.Errorf("%w; the first line of a script names its interpreter, as #!/bin/sh does", err)
	}
	why := context.Cause(limit)
	if why != nil {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // what has ignored SIGTERM
	}
	last, next := lastLines(out, begin)
	switch status := p.ProcessState.ExitCode(); {
	case (status == 0 || status == exitTempFail) && next != "":
		at, err := time.Parse(time.RFC3339, strings.TrimSpace(strings.TrimPrefix(next, nextPrefix)))
		if err != nil {
			return nil, fmt.Errorf("line %q: want next: and an instant such as 2006-01-02T15:04:05Z", next)
		}
		return &at, nil
	case status == 0 && why == nil: // many programs exit with 0 when SIGTERM ends them
		return nil, nil
	case status == exitTempFail:
		return new(s.cfg.Grid.Next(f.Slot)), nil
	case errors.Is(why, slots.ErrStopped):
		return nil, why
	}
	text := p.ProcessState.String()
	if why != nil {
		text = fmt.Sprintf("%v after %s: %s", why, s.cfg.Timeout, text)
	}
	return nil, errors.New(strings.TrimSuffix(text+": "+last, ": "))
}

// lastLines reads what a check has written from begin on. It returns the last line that is not
// empty, and the last line that begins with nextPrefix: of each at most maxLine bytes.
func lastLines(out *os.File, begin int64) (last, next string) {
	size, _ := out.Seek(0, io.SeekEnd)
	lines := bufio.NewReaderSize(io.NewSectionReader(out, begin, size-begin), maxLine)
	for rest := false; ; {
		text, more, err := lines.ReadLine()
		if err != nil { // the end, or what cannot be read
			return last, next
		}
		if !rest {
			line := string(bytes.TrimSpace(text))
			last = cmp.Or(line, last)
			if strings.HasPrefix(line, nextPrefix) {
				next = line
			}
		}
		rest = more
	}
}
