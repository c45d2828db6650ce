package slots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/claim"
)

// mostBeside bounds the slots that a catch-up works on at once: each sends heartbeats of its own.
const mostBeside = 16

// unknownAgain bounds the unknown jobs of a slot that waits to be run once more, which lists them again.
const unknownAgain = 10

// catching is a catch-up at work. One goroutine decides which slot begins next, and each slot has a goroutine of its
// own.
type catching struct {
	*Runner
	ctx    context.Context // of the runs; ends with that of the caller, or when one of them fails
	stop   context.CancelFunc
	asked  CatchUp
	sel    selection
	caught *Caught

	going  int // slots that are being run
	ended  chan slotRun
	again  []slotRun  // slots with locked rows, to run once more
	errs   slotErrors // of slots, without those of locked rows
	locked slotErrors // of locked rows
	failed error      // of a run; the others are stopped
}

// slotOf says what a catch-up works on, to the other catch-ups of the runner.
type slotOf struct {
	slot time.Time
	job  string // CatchUp.Job
}

// slotRun is the run of a slot, which goes on or has ended.
type slotRun struct {
	MissedSlot
	nth    int    // of the slots of the catch-up
	second bool   // it is run once more
	result Result // of all its runs
	taken  int64  // rows of the last run that count for the limit
	err    error
}

func newCatching(ctx context.Context, r *Runner, c CatchUp, sel selection, caught *Caught) *catching {
	w := &catching{Runner: r, asked: c, sel: sel, caught: caught, ended: make(chan slotRun)}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w
}

// atOnce returns how many slots may be run at once.
func (w *catching) atOnce() int {
	if w.asked.Limit > 0 {
		return 1
	}
	return mostBeside
}

// do runs slots, and those with locked rows once more at the end.
func (w *catching) do(slots iter.Seq2[MissedSlot, error]) error {
	nth := 0
	for missed, err := range slots {
		if err == nil && w.ctx.Err() != nil {
			err = ErrStopped
		}
		if err != nil {
			w.fail(err)
		}
		if w.isOver() {
			break
		}
		if w.asked.Each != nil {
			w.asked.Each(missed)
		}
		w.begin(slotRun{MissedSlot: missed, nth: nth})
		nth++
	}
	if w.asked.Begun != nil {
		w.asked.Begun()
	}
	w.join()
	for _, s := range w.again {
		if s.second = true; w.isOver() || w.ctx.Err() != nil {
			w.conclude(s)
		} else {
			w.begin(s)
		}
	}
	w.join()
	other, locked := errors.Join(w.errs.join(), w.failed), w.locked.join()
	if other != nil && locked != nil {
		return fmt.Errorf("%w\n%v", other, locked) //nolint:errorlint // ErrLocked says that nothing else went wrong
	}
	return cmp.Or(other, locked)
}

// isOver reports whether no further slot is begun.
func (w *catching) isOver() bool { return w.failed != nil || w.asked.Limit > 0 && w.sel.limit <= 0 }

// begin begins the run of a slot, and returns when the next one may begin. It leaves the slot to another catch-up of
// the runner that works on it: two of them at one slot would call a job with a limit twice as often, and both would
// stay.
func (w *catching) begin(s slotRun) {
	slot := slotOf{s.Slot, w.sel.job}
	if _, taken := w.atWork.LoadOrStore(slot, true); taken {
		s.result = s.result.plus(Result{Slot: s.Slot, Kind: w.sel.kind, State: StateOpen, Held: true})
		w.conclude(s)
		return
	}
	sel, next := w.sel, make(chan struct{})
	sel.letNext = sync.OnceFunc(func() { close(next) })
	w.going++
	go func() {
		result, err := w.run(w.ctx, s.Slot, sel)
		w.atWork.Delete(slot)
		sel.letNext()
		s.taken, s.err = result.Checked+result.Yielded+result.Refused, err
		if s.second {
			result = s.result.plus(result)
		}
		s.result = result
		w.ended <- s
	}()
	for waits := true; waits || w.going >= w.atOnce(); {
		select {
		case <-next:
			waits, next = false, nil
		case s := <-w.ended:
			w.take(s)
		}
	}
}

// join waits for the runs that go on.
func (w *catching) join() {
	for w.going > 0 {
		w.take(<-w.ended)
	}
}

// take takes a slot whose run has ended.
func (w *catching) take(s slotRun) {
	w.going--
	if w.asked.Limit > 0 {
		w.sel.limit -= s.taken
	}
	isLocked := errors.Is(s.err, ErrLocked) && !errors.Is(s.err, ErrAbandoned)
	if isLocked && !s.second && len(w.again) < pg.MostMissed {
		s.result.Unknown = firstOf(s.result.Unknown, unknownAgain)
		w.again = append(w.again, s)
		return
	}
	w.conclude(s)
}

// conclude takes the result of a slot that is not run again.
func (w *catching) conclude(s slotRun) {
	w.caught.add(s.nth, s.result)
	if w.asked.After != nil {
		w.asked.After(s.result)
	}
	_, failed := errors.AsType[abandonedError](s.err)
	switch {
	case isEarly(s.err) || errors.Is(s.err, errOffGrid): // the width was changed meanwhile
	case failed:
		w.fail(s.err)
	case errors.Is(s.err, ErrAbandoned) || errors.Is(s.err, ErrRefused):
		w.errs.add(s.err)
	case errors.Is(s.err, ErrLocked):
		w.locked.add(s.err)
	case s.err != nil:
		w.fail(s.err)
	}
}

// fail stops the catch-up because of an error. The runs that are stopped by that tell nothing new.
func (w *catching) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
	w.stop()
}

// add adds the result of the nth slot. The results together keep as many unknown jobs as one run lists.
func (c *Caught) add(nth int, r Result) {
	if nth < len(c.Slots) {
		room := claim.MostUnknown
		for _, kept := range c.Results {
			room -= len(kept.Unknown)
		}
		r.Unknown = firstOf(r.Unknown, room)
		c.Results = append(c.Results, make([]Result, max(0, nth+1-len(c.Results)))...)
		c.Results[nth] = r
	}
	t := &c.Total
	t.Slots++
	if r.State == StateDone {
		t.Done++
	}
	t.Checked, t.Finished, t.Rescheduled = t.Checked+r.Checked, t.Finished+r.Finished, t.Rescheduled+r.Rescheduled
	t.Failed, t.Yielded = t.Failed+r.Failed, t.Yielded+r.Yielded
}

// firstOf returns a copy of the first n names, so that the others take no memory.
func firstOf(names []string, n int) []string {
	return append([]string(nil), names[:min(n, len(names))]...)
}
