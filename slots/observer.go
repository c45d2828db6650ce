package slots

import (
	"time"

	"github.com/prescient-go/prescient/internal/guard"
)

// Observer receives what runs have done, for metrics. Several goroutines call it concurrently, and the run waits for
// it. A panic in it is logged.
type Observer interface {
	// Recorded is called after every record with the outcomes of its rows, also of rows that their owner cancelled or
	// moved during their check. The observer may keep the list.
	Recorded(list []Recorded)
	// Ran is called after every run of a slot, also those of catch-up, with its result.
	Ran(result Result, err error)
}

// Recorded sums up rows whose checks ended alike.
type Recorded struct {
	Job  string
	Rows int64
	// Outcome is a jobs.Outcome, or for rows that go on Rescheduled, Retried or Deferred.
	Outcome string
	// Checked reports whether the job's function was called. Otherwise Duration is meaningless.
	Checked  bool
	Lateness time.Duration // in steps of 100 ms
	Duration time.Duration // of the check; of a batch the share of each row
}

// The outcomes of rows that go on.
const (
	// Rescheduled: the check asked for another one.
	Rescheduled = "rescheduled"
	// Retried: the check failed, and is tried again.
	Retried = "retried"
	// Deferred: it was moved to a later slot, unchecked.
	Deferred = "deferred"
)

var moves = map[guard.Move]string{guard.MoveNext: Rescheduled, guard.MoveRetry: Retried, guard.MoveDefer: Deferred}
