package health

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// Span is how far back the conditions about jobs look.
const Span = 24 * time.Hour

// Prompt is how soon after its beginning a run opens a slot if all is well.
const Prompt = time.Minute

// StateDue is the state of the current slot while no run has opened it.
const StateDue slots.State = "due"

// Report is the state of a store at one moment, with how its jobs did, and the problems.
type Report struct {
	State
	Jobs      []ledger.JobStatus // checked in the last day, gave rows up, or unserved
	LateSlots []ledger.LateSlot  // of the last day, the newest 20
	// OpenedLate has the slots of the last day that were opened more than Prompt after they began.
	OpenedLate ledger.OpenedLate
	// Slowest is the slot that took longest of the newest four that run on time, or are running.
	// Took is how long.
	Slowest   time.Time
	Took      time.Duration
	leaving   []ledger.Leaving
	consumers []string // of the outbox, whose position is ahead of the server's
	behind    []ledger.Behind
	unread    []ledger.Unread
	forgotten []ledger.Forgotten
	schedules []ledger.PausedSchedule
	receivers []ledger.UnknownReceiver
	knows     func(job string) bool
	told      told
	// Findings are the problems. Their remedies lack the name of the binary. Empty if all is well.
	Findings []Finding
}

// told has the problems that findings tell already: a problem that several conditions see is one finding.
type told struct {
	jobs   map[string]bool // unserved ones, whose rows wait for a binary
	states []slots.State   // of slots in trouble, with their rows
	gaveUp map[string]bool // jobs whose rows were given up, with their errors
}

// Finding is a problem that a condition has found.
type Finding struct {
	Condition string `json:"condition"` // the kind of problem, as in status --check
	// Text describes the problem in words.
	Text string `json:"text"`
	// Remedy is the command that solves the problem, or one that shows more of it. Empty if there is none.
	Remedy string `json:"remedy"`
	// Job is the job that the finding is about. Empty if it is not about one job.
	Job string `json:"job"`
	// About is the destination, the consumer or the receiver that the finding is about. Empty if it is about none.
	About string `json:"about"`
}

// Name returns the name by which a finding is told and silenced: the condition and, if the finding is about a job, a
// destination, a consumer or a receiver, a slash and its name.
func (f Finding) Name() string {
	if name := cmp.Or(f.Job, f.About); name != "" {
		return f.Condition + "/" + name
	}
	return f.Condition
}

// about makes findings be about a destination, a consumer or a receiver.
func about(name string, found []Finding) []Finding {
	for i := range found {
		found[i].About = name
	}
	return found
}

// of makes findings be about a job.
func of(job string, found []Finding) []Finding {
	for i := range found {
		found[i].Job = job
	}
	return found
}

// Check reads the state and judges it. since is the first slot to search for missed or open slots;
// the zero time means the ledger's first. knows reports whether the caller has registered a job: the
// caller's catch-up cannot run rows of other jobs. Nil: it has registered none.
func Check(
	ctx context.Context, l *ledger.Ledger, since time.Time, thresholds Thresholds, knows func(job string) bool,
) (Report, error) {
	if knows == nil {
		knows = func(string) bool { return false }
	}
	r := Report{knows: knows}
	var err error
	if r.State, err = Read(ctx, l, since); err != nil {
		return r, err
	}
	day := r.Now.Add(-Span)
	for _, read := range []func(){
		func() { r.Jobs, err = l.Jobs(ctx, day) },
		func() { r.LateSlots, err = l.LateSlots(ctx, day, 20) },
		func() { r.OpenedLate, err = l.OpenedLate(ctx, day, Prompt) },
		func() { r.Slowest, r.Took, err = l.Took(ctx, day) },
		func() { r.leaving, err = l.Leaving(ctx) },
		func() { r.consumers, err = l.ConsumersAhead(ctx) },
		func() { r.behind, err = l.DestinationsBehind(ctx) },
		func() { r.unread, err = l.Unread(ctx) },
		func() { r.forgotten, err = l.Forgotten(ctx, r.Now) },
		func() { r.schedules, err = l.PausedSchedules(ctx, r.Now) },
		func() { r.receivers, err = l.UnknownReceivers(ctx) },
	} {
		if read(); err != nil {
			return r, err
		}
	}
	for _, c := range conditions {
		if threshold, on := thresholds.of(c); on {
			for _, f := range c.judge(&r, threshold) {
				f.Condition = c.Name
				r.Findings = append(r.Findings, f)
			}
		}
	}
	return r, nil
}

// tell marks slots in trouble as told, and returns the findings that tell them.
func (r *Report) tell(found []Finding, states ...slots.State) []Finding {
	if len(found) > 0 {
		r.told.states = append(r.told.states, states...)
	}
	return found
}

// found returns one finding if there is a problem, otherwise none.
func (r *Report) found(is bool, remedy, format string, args ...any) []Finding {
	if !is {
		return nil
	}
	return []Finding{{Text: fmt.Sprintf(format, args...), Remedy: remedy}}
}

func clock(t time.Time) string { return spoken.Instant(t) }

// since returns an instant with its distance from now, for texts. A remedy takes only the instant.
func (r *Report) since(t time.Time) string { return spoken.Since(t, r.Now) }

func seconds(s float64) string {
	return duration.Format(time.Duration(s * float64(time.Second)).Round(time.Second))
}

// oneLine returns an error in one line. It is not cut: its end often says what to do.
func oneLine(text string) string { return strings.Join(strings.Fields(spoken.Error(text)), " ") }
