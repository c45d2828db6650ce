package slots

import (
	"time"

	"github.com/prescient-go/prescient/internal/guard"
)

// Observer is told what runs have done, for metrics. It is called by several goroutines at once, and what it takes is
// taken from the run. A panic in it is logged.
type Observer interface {
	// Recorded is called after every record, with what became of its rows: those, too, that their owner cancelled or
	// moved while they were checked. The list is the observer's.
	Recorded(list []Recorded)
	// Ran is called after every run of a slot, those of catch-up, too, with what it returns.
	Ran(result Result, err error)
}

// Recorded is rows whose checks ended alike.
type Recorded struct {
	Job  string
	Rows int64
	// Outcome is a jobs.Outcome, or Rescheduled, Retried or Deferred of rows that go on.
	Outcome string
	// Checked tells whether the job's function was called; else Duration means nothing.
	Checked  bool
	Lateness time.Duration // in steps of 100 ms
	Duration time.Duration // of the check; of a batch the share of each row
}

// What becomes of a row that goes on.
const (
	// Rescheduled: the check asked for another one.
	Rescheduled = "rescheduled"
	// Retried: the check failed, and is tried again.
	Retried = "retried"
	// Deferred: it was moved to a later slot, unchecked.
	Deferred = "deferred"
)

var moves = map[guard.Move]string{guard.MoveNext: Rescheduled, guard.MoveRetry: Retried, guard.MoveDefer: Deferred}
