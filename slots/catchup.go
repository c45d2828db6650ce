package slots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/db"
)

// Mode says what catch-up does with the rows of missed slots.
type Mode string

// The modes.
const (
	// ModeRun checks each row, or defers or skips it, as its job's misfire policy says.
	ModeRun Mode = "run"
	// ModeDefer moves every row to the next slots, unchecked.
	ModeDefer Mode = "defer"
	// ModeExpire archives the rows past their job's deadline, and leaves the others.
	ModeExpire Mode = "expire"
)

// CatchUp selects the missed slots to repair, and how. The zero value runs all of them.
type CatchUp struct {
	Mode Mode // default ModeRun
	// Since and Until bound the slots: from Since up to but not including Until. Zero: no bound.
	Since, Until time.Time
	// Job restricts the catch-up to the rows of one job. A slot with rows of other jobs stays open. The call for a
	// group gets only the rows of this job.
	Job string
	// Limit bounds the rows to take; 0: no limit. The group of a row that is taken is checked whole, so more rows than
	// that may be checked.
	Limit int64
	// Spread is the number of slots, from the next one on, over which ModeDefer spreads the rows by their keys. Default 1.
	Spread int
	// DryRun only lists the slots.
	DryRun bool
	// Each is called before each slot that has rows, and After with its result once CatchUp is done with the slot. Never
	// concurrently. Optional.
	Each  func(MissedSlot)
	After func(Result)
	// Begun is called once all slots have begun and have nothing to start: their checks run, or wait for locks or for
	// limits of their jobs. Optional.
	Begun func()
}

// MissedSlot is a slot in the past that has rows: it was missed, or left open by a runner that died, or it has
// stragglers.
type MissedSlot struct {
	Slot  time.Time
	State State // StateMissed, StateOpen or StateDone (stragglers)
}

// Caught is the result of a catch-up.
type Caught struct {
	// Slots lists the slots with rows, oldest first: 1,000 of them at most. MoreSlots counts the others.
	Slots     []MissedSlot
	MoreSlots int64
	// Empty slots were missed and had nothing to do. They have ledger rows now, unless it was a dry run.
	Empty int64
	// Results has one entry for each of Slots that was worked on. Together they list up to 1,000 unknown jobs.
	// CatchUp.After gets the results of all slots, each with its unknown jobs.
	Results []Result
	Total   Total
}

// Total sums up the results of all slots that a catch-up worked on.
type Total struct {
	Slots int64
	Done  int64 // slots that are done now
	// The rows of these slots; see Result.
	Checked, Finished, Rescheduled, Failed, Yielded int64
}

// CatchUp goes through the missed slots, the oldest first, under the same leases as every run. The next slot begins
// once the slots before have nothing to start, because their checks run or wait for locks. If they have only checks to
// start that wait for the limit of their own job, the next slot begins after some seconds. Together the slots have the
// bounds of one run: its workers, connections, concurrency of jobs and memory. With a Limit it does one slot after the
// other.
//
// If only rows that other sessions have locked are left in a slot, CatchUp leaves them after some seconds. It looks at
// the slot again at the end, and returns ErrLocked if they are still locked.
//
// Concurrent catch-ups share the work, and leave a slot that is being run to its runners. Catch-ups of one Runner leave
// each other the slots that they work on, unless they are for different jobs; Result.Held is true for these. CatchUp
// takes the current slot only if a run has opened it: a slot that has just begun belongs to its run.
func (r *Runner) CatchUp(ctx context.Context, c CatchUp) (Caught, error) {
	sel, err := r.selection(c)
	if err == nil { // Run may have waited and worked since the runner was made
		r, err = r.again(ctx)
	}
	if err != nil {
		return Caught{}, err
	}
	caught, first, err := r.missed(ctx, c)
	if err != nil || c.DryRun {
		return caught, err
	}
	w := newCatching(ctx, r, c, sel, &caught)
	defer w.stop()
	return caught, w.do(r.eachMissed(w.ctx, first))
}

// maxSlotErrors is how many errors of slots the error of a catch-up has.
const maxSlotErrors = 20

// slotErrors are the errors of slots at which a catch-up goes on: ErrAbandoned, ErrRefused and ErrLocked.
type slotErrors struct {
	list []error
	more int // errors that are left out
}

// add adds the error of a slot, if it is not nil. It keeps the first maxSlotErrors, and the first of each kind.
func (e *slotErrors) add(err error) {
	kept := errors.Join(e.list...)
	isNew := errors.Is(err, ErrAbandoned) && !errors.Is(kept, ErrAbandoned) ||
		errors.Is(err, ErrRefused) && !errors.Is(kept, ErrRefused)
	switch {
	case err == nil:
	case len(e.list) < maxSlotErrors || isNew:
		e.list = append(e.list, err)
	default:
		e.more++
	}
}

// join returns the errors as one, which says how many are left out. It returns nil if there are none.
func (e *slotErrors) join() error {
	list := e.list
	if e.more > 0 {
		list = append(slices.Clip(list), fmt.Errorf("%s more ended with such an error: see the log, or status",
			spoken.Count(int64(e.more), "slot", "slots")))
	}
	return errors.Join(list...)
}

// selection checks a CatchUp and turns its mode into a judge.
func (r *Runner) selection(c CatchUp) (selection, error) {
	sel := selection{kind: KindCatchUp, job: c.Job, limit: c.Limit, beside: newBeside(&r.cfg)}
	switch {
	case c.Limit < 0:
		return sel, fmt.Errorf("catch up: limit %d: must not be negative", c.Limit)
	case c.Spread < 0 || c.Spread > 1 && c.Mode != ModeDefer:
		return sel, fmt.Errorf("catch up: spread %d: must be positive, and is for mode %s alone", c.Spread, ModeDefer)
	case c.Spread > maxSpread:
		return sel, fmt.Errorf("catch up: spread %d: must be at most %d slots", c.Spread, maxSpread)
	}
	switch c.Mode {
	case "", ModeRun:
		sel.judge = check
	case ModeDefer:
		sel.judge = deferAll(max(c.Spread, 1))
	case ModeExpire:
		sel.skips = true
		sel.judge = expire
	default:
		return sel, fmt.Errorf("catch up: mode %q: must be %s, %s or %s", c.Mode, ModeRun, ModeDefer, ModeExpire)
	}
	return sel, nil
}

// maxSpread keeps the total width of a spread within a time.Duration.
const maxSpread = 100_000

// deferAll returns the judge that moves rows to the next slots, each to the one that its key picks;
// its id picks that of an anonymous row.
func deferAll(over int) judge {
	return func(_ *jobs.Definition, row *jobs.FutureJob, m guard.Moment) (*guard.Verdict, bool) {
		key, next := row.Key(), m.Grid.Next(m.Latest())
		if row.Anonymous {
			key.ItemKey = strconv.FormatInt(row.ID, 10)
		}
		next = spread.Key(key).PickSlot(m.Grid, next, time.Duration(over)*m.Grid.Width(), next)
		return &guard.Verdict{Move: guard.MoveDefer, Next: next}, false
	}
}

func expire(d *jobs.Definition, _ *jobs.FutureJob, m guard.Moment) (verdict *guard.Verdict, skips bool) {
	if guard.PastDeadline(d, m) {
		return &guard.Verdict{Outcome: jobs.OutcomeDeadline}, false
	}
	return nil, true
}

// search is a search for the oldest slots to repair in a range.
type search struct {
	since, until time.Time // the range; until is exclusive
	current      time.Time // the slot that has begun, which belongs to its run until that has opened it
	most         int       // slots to find at most

	found       []MissedSlot
	all, missed int64 // slots in the range, and those of them that are gaps of the ledger
}

// missed finds the slots to repair, and records those without rows in the ledger.
func (r *Runner) missed(ctx context.Context, c CatchUp) (Caught, search, error) {
	var caught Caught
	current := r.Grid().Floor(r.Now())
	since, until := r.Grid().Ceil(timeOr(c.Since, grid.Min())), timeOr(c.Until, r.Grid().Next(current))
	f := search{since: since, until: grid.Earlier(until, r.Grid().Next(current)), current: current, most: pg.MostMissed}
	var m pg.Message
	var filled int64
	m.Do(pg.SlotIndexOnly.In(r.server.Schema))
	if c.DryRun {
		m.Add(pg.LedgerGaps.In(r.server.Schema), []any{since, grid.Earlier(until, current)}, countSlots(&caught.Empty))
	} else {
		var err error
		if since, filled, err = r.fill(ctx, since, grid.Earlier(until, current)); err != nil {
			return caught, f, err
		}
		r.addFill(&m, since, grid.Earlier(until, current), &caught.Empty)
	}
	if err := r.find(ctx, &m, &f); err != nil {
		return caught, f, err
	}
	caught.Empty += filled
	caught.Slots, caught.MoreSlots = f.found, f.all-int64(len(f.found))
	if c.DryRun {
		caught.Empty -= f.missed // gaps of the ledger, but not empty slots
	}
	return caught, f, nil
}

// find carries out a search, at the end of a message.
func (r *Runner) find(ctx context.Context, m *pg.Message, f *search) error {
	m.Add(pg.PastSlots.In(r.server.Schema), []any{f.since, f.until, f.current, f.most}, func(row *sql.Rows) error {
		var m MissedSlot
		err := row.Scan(pg.UTC(&m.Slot), &m.State, &f.all, &f.missed)
		f.found = append(f.found, m)
		return err
	})
	return r.sendFind(ctx, m, func() { f.found, f.all, f.missed = nil, 0, 0 })
}

// sendFind sends a message that finds missed slots, and repeats it while the database is away. It calls reset before
// each attempt.
func (r *Runner) sendFind(ctx context.Context, m *pg.Message, reset func()) error {
	err := r.server.Retry(ctx, db.Retryable, func() error {
		reset()
		return r.server.Commit(ctx, m)
	})
	if err != nil && ctx.Err() != nil {
		return ErrStopped
	}
	if err != nil {
		return fmt.Errorf("find missed slots: %w", err)
	}
	return nil
}

// fillAtOnce is how many slots of the grid a transaction looks through for empty ones. If catch-up is stopped, the
// server soon ends its statement, and the next catch-up goes on from there.
const fillAtOnce = 100_000

// fill records the missed slots without rows that are older than the last fillAtOnce slots of a range. It returns their
// number, and the beginning of the rest of the range.
func (r *Runner) fill(ctx context.Context, since, until time.Time) (rest time.Time, empty int64, err error) {
	if since.Before(r.setting.Since) {
		since = r.setting.Since
	}
	step := fillAtOnce * r.Grid().Width()
	for ; until.Sub(since) > step; since = since.Add(step) {
		var m pg.Message
		var n int64
		m.Do(pg.SlotIndexOnly.In(r.server.Schema))
		r.addFill(&m, since, since.Add(step), &n)
		if err := r.sendFind(ctx, &m, func() {}); err != nil {
			return since, empty, err
		}
		empty += n
	}
	return since, empty, nil
}

// addFill adds the statement that records the missed slots without rows in a range, and counts them in empty.
func (r *Runner) addFill(m *pg.Message, since, until time.Time, empty *int64) {
	m.Add(pg.LedgerFill.In(r.server.Schema), []any{since, until, r.replayed()}, countSlots(empty))
}

// countSlots reads the number of slots. It skips the first and the last slot of the row.
func countSlots(n *int64) func(row *sql.Rows) error {
	return func(row *sql.Rows) error { return row.Scan(n, new(sql.NullTime), new(sql.NullTime)) }
}

// searchAtOnce is how many slots of the grid a search for more slots covers. Together they cost no more than one
// search of the whole range, and few of the slots are in memory.
const searchAtOnce = 10_000

// eachMissed yields the slots that were found, and searches for more of them when they are done. The last pair has the
// error of that.
func (r *Runner) eachMissed(ctx context.Context, f search) iter.Seq2[MissedSlot, error] {
	return func(yield func(MissedSlot, error) bool) {
		end, more := f.until, f.all > int64(len(f.found))
		for {
			for _, missed := range f.found {
				if !yield(missed, nil) {
					return
				}
			}
			if f.all > int64(len(f.found)) {
				f.since = f.found[len(f.found)-1].Slot.Add(time.Microsecond)
			} else {
				f.since = f.until
			}
			if !more || !f.since.Before(end) {
				return
			}
			f.most, f.until = searchAtOnce, grid.Earlier(end, f.since.Add(searchAtOnce*r.Grid().Width()))
			var m pg.Message
			m.Do(pg.SlotIndexOnly.In(r.server.Schema))
			if err := r.find(ctx, &m, &f); err != nil {
				yield(MissedSlot{}, err)
				return
			}
		}
	}
}

func timeOr(t, fallback time.Time) time.Time {
	if t.IsZero() {
		return fallback
	}
	return t
}
