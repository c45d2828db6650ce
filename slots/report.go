package slots

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/unit"
)

// report collects the result of a run, and passes on progress, recorded outcomes and panics of functions.
type report struct {
	cfg     *Config
	ctx     context.Context // of log lines
	panics  *unit.Panics
	known   *row.Jobs   // of the slot
	telling *sync.Mutex // held while Progress is called

	holder holderSearch

	mu      sync.Mutex
	result  Result          // but for Unknown
	unknown map[string]bool // Result.Unknown
	refusal error           // of the first row that was refused
}

// holderSearch looks for a session that has locked rows which a run leaves in its slot. The claims of the run share it.
type holderSearch struct {
	mu    sync.Mutex // held while a claim looks: many at once would each open a connection
	until time.Time  // local monotonic instant from which on no claim looks; zero: before the first look
	found string     // the session, and how to end it; empty: not known
}

// opened records the slot as the run found it.
func (r *report) opened(o claim.Opened) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Planned = o.Planned
	r.result.TakenOver += o.Taken
}

// takeOver counts a claim that was taken over.
func (r *report) takeOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.TakenOver++
}

// soFar returns a copy of the result: abandoned checks may go on counting.
func (r *report) soFar() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := r.result
	result.Unknown, result.Failures = slices.Sorted(maps.Keys(r.unknown)), slices.Clone(result.Failures)
	return result
}

// count adds a record to the result.
func (r *report) count(n row.Tally, outcomes []row.Outcome) {
	recorded := n.Of(outcomes)
	r.observe(recorded)
	r.add(n, recorded)
	if r.cfg.Progress == nil || n.Checked() == 0 {
		return
	}
	r.telling.Lock() // not mu: the end of a stopped run needs that even if Progress blocks
	defer r.telling.Unlock()
	r.tell("Progress", func() { r.cfg.Progress(r.progress()) })
}

func (r *report) add(n row.Tally, recorded []row.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.add(n)
	for i := range recorded {
		if o := &recorded[i]; o.IsFailure() {
			r.result.addFailure(r.known.Name(o.Number), o)
		}
	}
}

func (r *report) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{Slot: r.result.Slot, Planned: r.result.Planned, Recorded: r.result.Checked}
}

// note records a job that is not registered here, up to claim.MostUnknown of them.
func (r *report) note(unknown string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unknown) < claim.MostUnknown {
		r.unknown[unknown] = true
	}
}

// held records that other runners hold claims of the slot.
func (r *report) held() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Held = true
}

// observe passes recorded outcomes to the observer. It merges neighbours that are alike.
func (r *report) observe(outcomes []row.Outcome) {
	if r.cfg.Observer == nil || len(outcomes) == 0 {
		return
	}
	var list []Recorded
	for _, o := range outcomes {
		entry := Recorded{
			JobExec: r.known.Name(o.Number), Outcome: cmp.Or(o.Verdict.Outcome, moves[o.Verdict.Move]),
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

// tell calls a function of the caller, and logs its panic instead of ending the run.
func (r *report) tell(name string, function func()) {
	defer func() {
		if p := recover(); p != nil {
			r.panics.Watcher(r.ctx, name, p, debug.Stack())
		}
	}()
	function()
}

// abandon counts an abandoned check, and returns their number.
func (r *report) abandon() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Abandoned++
	return r.result.Abandoned
}

// maxRefusals is how many rows that are refused the log names.
const maxRefusals = 20

// refuse counts a row that is left in its slot, because the database refuses to record anything of it, and returns how
// many there are.
func (r *report) refuse(why error) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = cmp.Or(r.refusal, why)
	if r.result.Refused++; r.result.Refused <= maxRefusals {
		r.cfg.Logger.ErrorContext(r.ctx, "a row is left in its slot: the database refuses to record its outcome",
			"slot", r.result.Slot, "error", why)
	}
	return r.result.Refused
}

// holderTime bounds how long all claims of a run that leaves locked rows look for a session that has them.
const holderTime = 3 * time.Second

// look notes which session has locked rows that the run leaves, if a claim finds one. The claims look one after the
// other, until one of them has found a session.
func (h *holderSearch) look(ctx context.Context, find func(ctx context.Context) string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := elapsed.Now()
	if h.until.IsZero() {
		h.until = now.Add(holderTime)
	}
	if h.found != "" || !now.Before(h.until) {
		return
	}
	ctx, end := context.WithTimeout(ctx, h.until.Sub(now))
	defer end()
	h.found = find(ctx)
}

// name returns the session that was found, and how to end it, or says that none was found.
func (h *holderSearch) name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cmp.Or(h.found, "it is not known which session has them")
}

// refused returns the error of a run that has left rows in their slot; nil: it has left none.
func (r *report) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusal == nil {
		return nil
	}
	return fmt.Errorf("%w: %s, the first of which is %w", ErrRefused, spoken.Count(r.result.Refused, "row", "rows"),
		r.refusal)
}
