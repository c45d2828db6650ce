package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// Code is how a command ended: the exit code of the process.
type Code int

// The codes.
const (
	// Done: it did its work, or there was nothing to do.
	Done Code = iota
	// Failure: it could not do its work.
	Failure
	// Usage: an unknown command, a bad flag, argument or configuration. Nothing was done.
	Usage
	// Found: a command that checks has found something wrong; a run did what it could, and found a job that cannot run.
	Found
	// Stopped: a run was stopped by a signal before its slot was done, or a backfill. The rest of a slot is left for another runner
	// or catch-up.
	Stopped
)

const codesHelp = `Exit codes:
  0  done, or nothing to do
  1  failure
  2  unknown command, bad flag or argument, bad configuration
  3  a check (--check, doctor) found something wrong, or a run a job that cannot run
  4  stopped by a signal before it was done; the rest of a slot is left to another runner, or to catch-up`

// ExitError gives a command's error another code than Failure. One without Err prints nothing: the command has said
// what there is to say.
type ExitError struct {
	Code Code
	Err  error
}

// Error returns the text of Err.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// usagef is the error of a bad argument.
func usagef(format string, args ...any) error {
	return &ExitError{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// inOrder returns an error of usage if --since and --until are given, and at now the span ends before it has begun.
func inOrder(now time.Time, since, until cli.Instant) error {
	if since.Given() && until.Given() && !until.From(now).After(since.From(now)) {
		return usagef("--until %s is at or before --since %s", &until, &since)
	}
	return nil
}

func codeOf(err error) Code {
	if err == nil {
		return Done
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if _, ok := errors.AsType[*jobs.FieldError](err); ok {
		return Usage
	}
	if errors.Is(err, slots.ErrStopped) {
		return Stopped
	}
	return Failure
}
