package slots

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/phase"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// ErrStopped is returned by a run that was stopped before its slot was done. Finished checks are recorded; the other
// rows are left for another runner or for catch-up.
var ErrStopped = phase.ErrStopped

// ErrAbandoned is returned by a run that left checks behind that went on after their timeout and the grace period. They
// end with the process, which should exit soon, with a failure.
var ErrAbandoned = errors.New("checks ignored their timeout")

// ErrRefused is returned by a run that left rows in their slot, because the database records
// neither their outcome nor an error: a trigger raises an error at every change of them, for
// example. The slot stays open, and catch-up tries again.
var ErrRefused = errors.New("the database refuses to record rows, which are left in their slot")

// ErrLocked is returned by a run that left rows in their slot, because other sessions have locked them, or what their
// checks need. The slot stays open for catch-up. A catch-up that returns it has done all else.
var ErrLocked = errors.New("rows wait for locks of other sessions, and are left in their slot")

// ErrLeaseLost is the cause of the context of a check whose runner lost its lease: another runner may be doing the
// same check. It is also the cause if the runner lost the permit of the check; see jobs.AtMost.
var ErrLeaseLost = claim.ErrLost

// Kind says why a slot was opened.
type Kind string

// The kinds.
const (
	KindRun     Kind = "run"      // its time had come
	KindCatchUp Kind = "catch_up" // no run had opened it in time
	KindByHand  Kind = "by_hand"  // an operator has one check run, and no run has opened the slot since
)

// State is the state of a slot in the ledger. A slot without a ledger row is StateMissed once the next has begun.
type State string

// The states.
const (
	StateOpen   State = "open"   // a run has opened it, and it has rows to do, perhaps without a runner
	StateDone   State = "done"   // all rows that it had are recorded
	StateMissed State = "missed" // no run has opened it
)

// Result says what one runner did for one slot.
type Result struct {
	Slot time.Time `json:"slot"` // UTC
	Kind Kind      `json:"kind"`
	// State is open or done. It is open if other runners are at the slot, or rows were left in it: on purpose, or because
	// this runner does not know their jobs.
	State State `json:"state"`
	// Planned is the number of rows for all runners when the slot was opened; an estimate if there were many.
	Planned int64 `json:"planned"`
	// Checked = Finished + Rescheduled + Failed: the rows whose outcome this runner recorded.
	Checked     int64 `json:"checked"`
	Finished    int64 `json:"finished"`
	Rescheduled int64 `json:"rescheduled"`
	Failed      int64 `json:"failed"`
	// Yielded rows were cancelled or moved by their owner during their check, whose outcome was dropped.
	Yielded   int64 `json:"yielded"`
	TakenOver int   `json:"taken_over"` // claims taken over from dead runners
	Lost      int   `json:"lost"`       // claims that this runner lost to other ones
	// Refused rows are left in their slot, because the database refuses to record them; see ErrRefused.
	Refused int64 `json:"refused"`
	// Abandoned checks went on after their timeout and the grace period.
	Abandoned int `json:"abandoned"`
	// Unknown lists the jobs, by name, that have rows in the slot and are not registered here: up to 1,000 of them. The
	// rows stay, and the slot stays open, for a runner that knows the jobs.
	Unknown []string `json:"unknown"`
	// Failures lists the jobs, by name, whose checks ended in an error.
	Failures []Failure `json:"failures"`
	// LockedBy names a session that has locked rows, and how to end it, if the run returned ErrLocked.
	LockedBy string `json:"-"`
	// Held reports that claims of the slot were left: other runners held them when this runner left the slot, or they have
	// rows that are refused or locked.
	Held bool          `json:"-"`
	Took time.Duration `json:"-"`
}

// Failure sums up the errors of one job's checks in a run.
type Failure struct {
	JobExec string `json:"job_exec"`
	Failed  int64  `json:"failed"`  // checks that ended in an error
	GaveUp  int64  `json:"gave_up"` // of their rows, those that are in history as failed now; the others are tried again
	Error   string `json:"error"`   // of the first of these checks
}

// LogValue returns the result as the attributes of a log line.
func (r Result) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Time("slot", r.Slot), slog.String("kind", string(r.Kind)), slog.String("state", string(r.State)),
		slog.Int64("planned", r.Planned), slog.Int64("checked", r.Checked), slog.Int64("finished", r.Finished),
		slog.Int64("rescheduled", r.Rescheduled), slog.Int64("failed", r.Failed), slog.Int64("yielded", r.Yielded),
		slog.Int("taken_over", r.TakenOver), slog.Int("lost", r.Lost), slog.Int("abandoned", r.Abandoned),
		slog.Duration("took", r.Took),
	}
	if r.Refused > 0 {
		attrs = append(attrs, slog.Int64("refused", r.Refused))
	}
	if len(r.Unknown) > 0 {
		attrs = append(attrs, slog.Any("unknown", spoken.Some(r.Unknown)))
	}
	return slog.GroupValue(attrs...)
}

// plus adds what another run of the same slot did after this one.
func (r Result) plus(later Result) Result {
	later.Planned = max(r.Planned, later.Planned)
	later.Checked += r.Checked
	later.Finished += r.Finished
	later.Rescheduled += r.Rescheduled
	later.Failed += r.Failed
	later.Yielded += r.Yielded
	later.TakenOver += r.TakenOver
	later.Lost += r.Lost
	later.Refused += r.Refused
	later.Abandoned += r.Abandoned
	later.Took += r.Took
	for _, f := range r.Failures {
		i, known := later.failuresOf(f.JobExec)
		if !known {
			later.Failures = slices.Insert(later.Failures, i, Failure{JobExec: f.JobExec})
		}
		later.Failures[i].Failed += f.Failed
		later.Failures[i].GaveUp += f.GaveUp
		later.Failures[i].Error = f.Error
	}
	return later
}

// failuresOf finds the errors of a job, or the place for them.
func (r *Result) failuresOf(job string) (i int, known bool) {
	return slices.BinarySearchFunc(r.Failures, job, func(f Failure, job string) int {
		return strings.Compare(f.JobExec, job)
	})
}

// add adds a tally to the result.
func (r *Result) add(t row.Tally) {
	r.Finished += t.Finished
	r.Rescheduled += t.Rescheduled
	r.Failed += t.Failed
	r.Yielded += t.Yielded
	r.Checked += t.Checked()
}

// addFailure adds the outcome of a check that ended in an error.
func (r *Result) addFailure(job string, o *row.Outcome) {
	i, known := r.failuresOf(job)
	if !known {
		r.Failures = slices.Insert(r.Failures, i, Failure{JobExec: job, Error: o.Verdict.Error})
	}
	r.Failures[i].Failed++
	if o.Verdict.Outcome == jobs.OutcomeFailed {
		r.Failures[i].GaveUp++
	}
}

// logFailures logs a line for each job whose checks failed, and another for rows that were given up. See Config.Told.
func (r *Result) logFailures(ctx context.Context, log *slog.Logger, told func(job string, gaveUp bool) bool) {
	level := func(l slog.Level, job string, gaveUp bool) slog.Level {
		if told != nil && told(job, gaveUp) {
			return slog.LevelInfo
		}
		return l
	}
	for _, f := range r.Failures {
		log.Log(ctx, level(slog.LevelWarn, f.JobExec, false), "checks failed", "slot", r.Slot, "job", f.JobExec,
			"failed", f.Failed, "error", f.Error)
		if f.GaveUp > 0 {
			log.Log(ctx, level(slog.LevelError, f.JobExec, true),
				"rows were given up: they are in history as failed, and \"jobs retry\" puts them back",
				"slot", r.Slot, "job", f.JobExec, "rows", f.GaveUp)
		}
	}
}

// Observer receives what runs have done, for metrics. Several goroutines call it concurrently, and the run waits for
// it. A panic in it is logged.
type Observer interface {
	// Recorded is called after every record with the outcomes of its rows, but for rows that their owner cancelled or
	// moved during their check. Such rows may be among them if one record has rows of several jobs. The observer may keep
	// the list.
	Recorded(list []Recorded)
	// Ran is called after every run of a slot, also those of catch-up, with its result. A daemon also calls it, with
	// the error, for a run that could not begin because the database was unreachable.
	Ran(result Result, err error)
}

// Recorded sums up rows whose checks ended alike.
type Recorded struct {
	JobExec string
	Rows    int64
	// Outcome is one of rows that ended, or for rows that go on Rescheduled, Retried or Deferred.
	Outcome jobs.Outcome
	// Checked reports whether the job's function was called. Otherwise Duration is meaningless.
	Checked  bool
	Lateness time.Duration // in steps of 100 ms
	Duration time.Duration // of the check; of a batch the share of each row
}

// The outcomes of rows that go on.
const (
	// Rescheduled: the check asked for another one.
	Rescheduled jobs.Outcome = "rescheduled"
	// Retried: the check failed, and is tried again.
	Retried jobs.Outcome = "retried"
	// Deferred: it was moved to a later slot, unchecked.
	Deferred jobs.Outcome = "deferred"
)

var moves = map[guard.Move]jobs.Outcome{
	guard.MoveNext: Rescheduled, guard.MoveRetry: Retried, guard.MoveDefer: Deferred,
}
