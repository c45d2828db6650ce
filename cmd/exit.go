package cmd

import "github.com/prescient-go/prescient/cmd/internal/exit"

// Code is the exit code of the process.
type Code = exit.Code

// The codes.
const (
	// Done: the command succeeded, or had nothing to do.
	Done = exit.Done
	// Failure: the command failed.
	Failure = exit.Failure
	// Usage: an unknown command, a bad flag, argument or configuration, a name that is not known, or
	// a preview: --yes is missing. Nothing was done.
	Usage = exit.Usage
	// Found: a command that checks has found a problem. A run did its work, and found a job that
	// cannot run, or rows that other sessions have locked.
	Found = exit.Found
	// Stopped: a signal stopped a run before its slot was done, or a backfill. The rest of a slot
	// is left to another runner or catch-up.
	Stopped = exit.Stopped
)

const codesHelp = `Exit codes:
  0  done, or nothing to do
  1  failure
  2  unknown command or name, bad flag or argument, bad configuration, or a preview that needs --yes; nothing was done
  3  a check (--check, doctor) found something wrong, or a run found a job that cannot run or rows that are locked
  4  stopped by a signal before it was done; the rest of a slot is left to another runner, or to catch-up`

// ExitError gives a command's error another code than Failure. If Err is nil, nothing is printed:
// the command has printed its output already.
type ExitError = exit.Error

func codeOf(err error) Code { return exit.CodeOf(err) }
