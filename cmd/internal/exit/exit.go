// Package exit has the exit codes of commands, and the errors that carry one. It knows no command.
package exit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
)

// Code is the exit code of the process.
type Code int

// The codes. Package cmd says what each one means.
const (
	Done Code = iota
	Failure
	Usage
	Found
	Stopped
)

// Error gives a command's error another code than Failure. If Err is nil, nothing is printed: the
// command has printed its output already.
type Error struct {
	Code Code
	Err  error
}

// Error returns the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Usagef returns the error of a bad argument, flag or setting. Its code is Usage.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Err: fmt.Errorf(format, args...)}
}

// notFound are the errors of a name that the database does not have. A command that is given such a
// name is used wrongly, as with a misspelt flag.
var notFound = []error{schedule.ErrNotFound, rulestore.ErrNotFound, outbox.ErrNoConsumer}

// CodeOf returns the code of a command that ended with err. A nil error is Done. A check that ignored its timeout is a
// Failure, also if the command then stopped other work: a supervisor must start the process again.
func CodeOf(err error) Code {
	if err == nil {
		return Done
	}
	if exit, ok := errors.AsType[*Error](err); ok {
		return exit.Code
	}
	if _, ok := errors.AsType[*jobs.FieldError](err); ok {
		return Usage
	}
	if slices.ContainsFunc(notFound, func(target error) bool { return errors.Is(err, target) }) {
		return Usage
	}
	if errors.Is(err, slots.ErrStopped) && !errors.Is(err, slots.ErrAbandoned) {
		return Stopped
	}
	return Failure
}

// worst is the order in which codes win: the worst comes first.
var worst = []Code{Failure, Stopped, Usage, Found, Done}

// Worst returns the worst of the codes of some errors. It is Done for none.
func Worst(errs []error) Code {
	at := len(worst) - 1
	for _, err := range errs {
		at = min(at, slices.Index(worst, CodeOf(err)))
	}
	return worst[at]
}
