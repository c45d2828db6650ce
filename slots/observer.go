package slots

import (
	"cmp"
	"runtime/debug"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/slots/internal/row"
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

// observe tells the observer of outcomes that were recorded. Neighbours that are alike are one entry.
func (r *run) observe(outcomes []row.Outcome) {
	if r.cfg.Observer == nil || len(outcomes) == 0 {
		return
	}
	var list []Recorded
	for _, o := range outcomes {
		entry := Recorded{
			Job: r.known[o.Number].def.Name, Outcome: cmp.Or(string(o.Verdict.Outcome), moves[o.Verdict.Move]),
			Checked: o.Ran, Lateness: o.Lateness, Duration: o.Duration,
		}
		if last := len(list) - 1; last >= 0 {
			if entry.Rows = list[last].Rows; entry == list[last] {
				list[last].Rows++
				continue
			}
		}
		entry.Rows = 1
		list = append(list, entry)
	}
	r.tell("Observer.Recorded", func() { r.cfg.Observer.Recorded(list) })
}

// tell calls a function that is told something, and is not to end a run by a panic.
func (r *run) tell(name string, function func()) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Log(r.stop, r.panicLevel(name), "a function that looks on panicked", "function", name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	function()
}
