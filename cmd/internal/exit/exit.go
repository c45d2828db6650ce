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

// The codes. Table says what each means.
const (
	Done Code = iota
	Failure
	Usage
	Found
	Stopped
	Unconfirmed
	Left
)

// Table says what each code means, in their order: "prescient --help" and docs/commands.md print it.
var Table = []struct {
	Code  Code
	Means string
}{
	{Done, "done, or nothing to do"},
	{Failure, "failure: the message says why"},
	{
		Usage, "unknown command or name, or bad flag, argument, file or configuration, or another process is doing it; " +
			"nothing was done",
	},
	{Found, "a check (--check, doctor) found something"},
	{Stopped, "stopped by a signal before it was done; the next such command goes on"},
	{Unconfirmed, "a preview, because --yes is missing; nothing was done"},
	{Left, "did its work, but left rows: their job cannot run, or other sessions have locked them"},
}

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

// Unconfirmedf returns the error of a preview: --yes is missing. Its code is Unconfirmed.
func Unconfirmedf(format string, args ...any) error {
	return &Error{Code: Unconfirmed, Err: fmt.Errorf(format, args...)}
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
var worst = []Code{Failure, Stopped, Usage, Unconfirmed, Left, Found, Done}

// Worst returns the worst of the codes of what a command did in several stores. It is Done for none. Usage says that
// nothing was done, so beside any other code it is a Failure.
func Worst(errs []error) Code {
	at, same := len(worst)-1, true
	for _, err := range errs {
		code := CodeOf(err)
		same = same && code == CodeOf(errs[0])
		at = min(at, slices.Index(worst, code))
	}
	if worst[at] == Usage && !same {
		return Failure
	}
	return worst[at]
}
