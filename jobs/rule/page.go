package rule

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/rule/expr"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// page is a call of the check: rows of one rule.
type page struct {
	*checker
	rule *compiled
	grid grid.Grid
	tx   *sqlx.Tx
	// horizon is the transaction number with which the slot began, if older transactions are open. unsettled tells
	// that one of them has written to the table.
	horizon   sql.NullString
	unsettled bool
	rows      []jobs.FutureJob
	turns     []turn        // of each row
	results   []jobs.Result // of each row
}

// turn is a row of the page, with the steps to fire.
type turn struct {
	seen  seen
	was   state
	from  time.Time      // steps before it do not fire
	fired map[string]int // the last occurrence that has fired, by the name of the step
	due   []due          // steps to fire, in their order
	last  bool           // no step comes after them

	starts []start     // of the clock; empty unless the rule has Recovered
	over   []time.Time // starts of the clock of which the event of Rule.Recovered tells

	events []event.Event // of the steps to fire
}

// due is an occurrence of a step to fire, by the index of the step.
type due struct {
	step int
	Occurrence
}

// state is the payload of a row.
type state struct {
	// From is set for a row that was done and counts again, and for one that came to the rule late: steps before it
	// do not fire. Since is the start of the clock that From and LeftOut are about. Nil: they are about any.
	From  *time.Time `json:"from,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Came is when the row came to the rule, if a step may have passed then. LeftOut lists such steps that did not
	// fire.
	Came    *time.Time `json:"came,omitempty"`
	LeftOut []string   `json:"left_out,omitempty"`
	// Found says what the last check found, and Fired lists the steps that have fired. History has both.
	Found string   `json:"found,omitempty"`
	Fired []string `json:"fired,omitempty"`
}

// What the last check of a row finds.
const (
	foundDone    = "done"    // with a column of instants: done at the instant
	foundGone    = "gone"    // the table has no such row
	foundOutside = "outside" // the rule is not about the row
	foundOpen    = "open"    // no step is left
	foundRemoved = "the rule is removed"
)

// remember reads which steps have fired for the rows.
//
// It leaves out rows that are open at their first check: nearly always no step has fired for them. If
// one has, record finds out, and the engine divides the call. From then on, remember reads all rows.
func (p *page) remember(ctx context.Context) error {
	_, inTx := p.Publisher.(event.TxPublisher) // nothing is published twice if the call is divided
	recovers := p.rule.Rule.Recovered != (Recovered{})
	all := !inTx || len(p.rows) == 1 || p.rule.again.Load() || recovers
	of := make(map[string]int, len(p.rows))
	var keys []string
	for i, row := range p.rows {
		s := p.turns[i].seen
		if open := s.there && s.about && !s.done; all || row.CheckCount > 0 || len(row.Payload) > 0 || !open {
			of[row.EntityKey], keys = i, append(keys, row.EntityKey)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	type fired struct {
		key, step string
		number    int
		since     time.Time
		recovers  bool // it has fired since the rule has Recovered
	}
	list, err := pgsql.Collect(ctx, p.tx, pgsql.RuleFiredRead.In(p.Schema), []any{p.rule.Rule.Name, pq.StringArray(keys)},
		func(row *sql.Rows, f *fired) error {
			return row.Scan(&f.key, &f.since, &f.step, &f.number, &f.recovers)
		})
	if err != nil {
		return fmt.Errorf("read the steps of rule %s that have fired: %w", p.rule.Rule.Name, err)
	}
	for _, f := range list {
		t := &p.turns[of[f.key]]
		if recovers && f.recovers {
			t.begins(f.since, f.step)
		}
		if !f.since.Equal(t.seen.since) {
			continue
		}
		t.fires(f.step, f.number)
	}
	return nil
}

// fires notes that an occurrence of a step has fired.
func (t *turn) fires(step string, number int) {
	if t.fired == nil {
		t.fired = map[string]int{}
	}
	t.fired[step] = max(t.fired[step], number)
}

// plan decides about a row: it ends, or steps of it are due, or it waits.
func (p *page) plan(i int) {
	row, t := p.rows[i], &p.turns[i]
	if row.Anonymous || row.ItemKey != "" || p.rule.Rule.Entity != "" && row.EntityName != p.rule.Rule.Entity {
		p.results[i].Err = fmt.Errorf("the row stands for no row of %s: "+
			"checks of rule %s have entity_name %q and no item_key", p.rule.Relation, p.rule.Rule.Name, p.rule.Rule.Entity)
		return
	}
	was, err := jobs.Payload[state](row)
	if err != nil && !errors.Is(err, jobs.ErrNoPayload) {
		p.results[i].Err = err
		return
	}
	if was.Since != nil && t.seen.counts && !was.Since.Equal(t.seen.since) {
		was.From, was.Since, was.LeftOut = nil, nil, nil // the clock has moved
	}
	if t.was = was; was.From != nil {
		t.from = *was.From
	}
	t.over = over(t.starts, t.seen)
	switch s := t.seen; {
	case !s.there:
		p.end(i, foundGone)
	case p.mayCount(s):
		p.results[i].Next = new(p.grid.Next(p.begun(row)))
	case s.about && !s.done && !s.counts && p.rule.Facts.SinceLookup():
		p.again(i)
	case !s.about || !s.counts:
		p.end(i, foundOutside)
	case s.done && s.doneAt.Valid:
		p.end(i, foundDone+" at "+s.doneAt.Time.UTC().Format(time.RFC3339Nano))
	case s.done:
		p.end(i, foundDone)
	default:
		p.results[i].Err = p.steps(i)
	}
}

// mayCount reports whether an open transaction may let a row count that does not count now. Triggers leave the check of
// such a row as it is, if it comes before the first step. So the row goes on waiting until the transactions have ended
// that began before the slot. A row that is done by its own columns need not wait: the trigger changes its check, and
// locks it.
func (p *page) mayCount(s seen) bool {
	lookup := func(e expr.Expr) bool { return e.Lookup }
	return p.unsettled && (!s.about || s.done && slices.ContainsFunc(p.rule.Facts.Done, lookup))
}

// begun returns the last slot that had begun when the check of a row began.
func (p *page) begun(row jobs.FutureJob) time.Time {
	return grid.Later(row.Slot, p.grid.Floor(row.Slot.Add(row.Lateness)))
}

// steps finds the steps of a row that are due in a slot that has begun, and when the next one is. A check may
// be late, after an outage. Of the times at which a step repeats, the last one fires.
func (p *page) steps(i int) error {
	row, t := p.rows[i], &p.turns[i]
	begun := p.begun(row)
	var first, earliest time.Time // the first of all occurrences, and the next one
	timing := p.rule.timing.For(t.seen.lengths)
	for n, s := range p.rule.Rule.Steps {
		last, next, err := timing.Around(n, t.seen.since, grid.Later(begun, t.from.Add(-1)))
		if err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
		if last.Number > t.fired[s.Name] && !last.At.Before(t.from) {
			t.due = append(t.due, due{n, last})
		}
		begins := last
		if last.Number > 1 {
			begins, _ = timing.Nth(n, t.seen.since, 1) // it has passed
		}
		if begins.Number > 0 {
			first = earlier(first, begins.At)
		}
		if early := t.seen.since.Add(p.rule.timing.Earliest(n)); next.Number == 1 && s.Interval == "" && early.After(begun) {
			next.At = early // as a trigger lets it wait, see mayMove
		}
		if next.Number > 0 {
			earliest = earlier(earliest, next.At)
		}
	}
	slices.SortStableFunc(t.due, func(a, b due) int { return a.At.Compare(b.At) })
	if p.late(i, timing, begun) {
		return nil
	}
	if p.mayMove(first, row.Slot) {
		earliest = earlier(earliest, p.grid.Next(begun))
	}
	if p.rule.Rule.Recovered != (Recovered{}) && t.watched() {
		if t.seen.doneAt.Valid {
			earliest = earlier(earliest, t.seen.doneAt.Time)
		}
		if p.rule.Facts.EndLookup() {
			earliest = earlier(earliest, p.recheckAt(i))
		}
	}
	if earliest.IsZero() && p.rule.Facts.SinceLookup() {
		p.again(i)
		return nil
	}
	if t.last = earliest.IsZero(); !t.last {
		p.results[i].Next = &earliest
	} else if len(t.due) == 0 {
		p.end(i, foundOpen)
	}
	return nil
}

// mayMove reports whether an open transaction may have moved the clock of a row later. Before the first occurrence of a
// step, triggers leave the check of such a row as it is, because the check finds out. So when the first occurrence has
// come, the row goes on waiting until the transactions have ended that began before it.
func (p *page) mayMove(first, slot time.Time) bool {
	return !first.IsZero() && (p.unsettled || first.After(slot))
}

// earlier returns the earlier one of two instants. The zero value of the first one stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// late decides about the steps that had passed when the row came to the rule. It reports whether the row waits for
// another slot, in which they fire. Once it has left steps out, the payload says so: a later change of the policy is
// about other rows, and other starts of the clock.
func (p *page) late(i int, timing *Timing, begun time.Time) (waits bool) {
	row, t := p.rows[i], &p.turns[i]
	if t.was.Came == nil {
		return false
	}
	first := FirstToCome(p.grid, *t.was.Came)
	passed := func(d due) bool { return d.At.Before(first) }
	if !slices.ContainsFunc(t.due, passed) {
		return false
	}
	step := -1 // that fires
	switch p.rule.Rule.Overdue.decides() {
	case OverdueFire:
		return false
	case OverdueSpread:
		slot := p.rule.Rule.SlotFor(p.grid, *t.was.Came, row.EntityKey)
		if waits = begun.Before(slot); waits {
			t.due, p.results[i].Next = nil, &slot
		}
		return waits
	case OverdueLast:
		step, _ = timing.LastBefore(t.seen.since, first)
	case OverdueSkip:
	}
	leaves := func(d due) bool { return passed(d) && d.step != step }
	for _, d := range t.due {
		if leaves(d) {
			t.was.LeftOut = append(t.was.LeftOut, Repetition(p.rule.Rule.Steps[d.step].Name, d.Number))
		}
	}
	if t.due = slices.DeleteFunc(t.due, leaves); len(t.was.LeftOut) > 0 {
		t.was.From, t.was.Since = &first, &t.seen.since
		p.results[i].Payload, _ = json.Marshal(t.was) // never fails
	}
	return false
}

// again lets a row wait until another table may have moved its clock.
func (p *page) again(i int) { p.results[i].Next = new(p.recheckAt(i)) }

// recheckAt returns when to check again whether another table has moved the clock of a row, or has ended it.
func (p *page) recheckAt(i int) time.Time {
	row := p.rows[i]
	return row.Slot.Add(row.Lateness + p.rule.Rule.RecheckEvery())
}

// end ends a row with what was found.
func (p *page) end(i int, found string) {
	t := &p.turns[i]
	was := t.was // what could not be read is replaced
	was.Found, was.Fired = found, nil
	if p.rule != nil {
		for _, s := range p.rule.Rule.Steps {
			if n := t.fired[s.Name]; n > 0 {
				was.Fired = append(was.Fired, Repetition(s.Name, n))
			}
		}
	}
	text, _ := json.Marshal(was) // never fails
	p.results[i] = jobs.Result{Payload: text, Enqueue: p.results[i].Enqueue}
}

// record records the steps that have fired for the rows without an error. The transaction fires them
// once, with the outcomes of the rows.
func (p *page) record(ctx context.Context) error {
	var keys, since, steps []string
	for i := range p.turns {
		t := &p.turns[i]
		if p.results[i].Err != nil {
			continue
		}
		add := func(at time.Time, step string) {
			keys = append(keys, p.rows[i].EntityKey)
			since = append(since, string(pq.FormatTimestamp(at)))
			steps = append(steps, step)
		}
		for _, at := range t.over {
			add(at, RecoveredStep)
		}
		for _, d := range t.due {
			name := p.rule.Rule.Steps[d.step].Name
			add(t.seen.since, Repetition(name, d.Number))
			t.fires(name, d.Number)
		}
		if t.last && len(t.due) > 0 {
			p.end(i, foundOpen)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	recorded, err := pgsql.Collect(ctx, p.tx, pgsql.RuleFire.In(p.Schema), []any{
		p.rule.Rule.Name, pq.StringArray(keys), pq.StringArray(since), pq.StringArray(steps),
	}, func(row *sql.Rows, one *bool) error { return row.Scan(one) })
	if err != nil {
		return fmt.Errorf("record the steps of rule %s that fire: %w", p.rule.Rule.Name, err)
	}
	if len(recorded) != len(keys) {
		p.rule.again.Store(true)
		return fmt.Errorf("%w: a step of rule %s has fired before", jobs.ErrDivide, p.rule.Rule.Name)
	}
	return nil
}
