package cmd

import (
	"fmt"
	"strings"

	"github.com/prescient-go/prescient/cmd/internal/exit"
)

// Code is the exit code of the process.
type Code = exit.Code

// The codes.
const (
	// Done: the command succeeded, or had nothing to do.
	Done = exit.Done
	// Failure: the command failed.
	Failure = exit.Failure
	// Usage: an unknown command, a bad flag, argument, file or configuration, a name that is not known, or another
	// process is doing it. Nothing was done.
	Usage = exit.Usage
	// Found: a command that checks has found a problem.
	Found = exit.Found
	// Stopped: a signal stopped a run before its slot was done, a backfill, or events forward. The
	// rest of a slot is left to another runner or catch-up.
	Stopped = exit.Stopped
	// Unconfirmed: a preview, because --yes is missing. Nothing was done.
	Unconfirmed = exit.Unconfirmed
	// Left: a run did its work, and left rows of a job that cannot run, or rows that other sessions
	// have locked.
	Left = exit.Left
)

// codesHelp prints the table of codes.
var codesHelp = func() string {
	var b strings.Builder
	b.WriteString("Exit codes:")
	for _, line := range exit.Table {
		fmt.Fprintf(&b, "\n  %d  %s", line.Code, line.Means)
	}
	return b.String()
}()

// ExitError gives a command's error another code than Failure. If Err is nil, nothing is printed:
// the command has printed its output already.
type ExitError = exit.Error

func codeOf(err error) Code { return exit.CodeOf(err) }
