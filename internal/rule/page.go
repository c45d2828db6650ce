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

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots/grid"
)

// page is a call of the check: rows of one rule.
type page struct {
	*checker
	rule    *compiled
	created time.Time // the rule, which forgets what has fired when it is removed
	grid    grid.Grid
	tx      *sqlx.Tx
	// horizon is the transaction number with which the slot began, if older transactions are open. unsettled tells
	// that one of them has written to the table, or to one of Rule.Also.
	horizon   sql.NullString
	unsettled bool
	began     time.Time // the call
	rows      []jobs.FutureJob
	turns     []turn        // of each row
	results   []jobs.Result // of each row
}

// turn is a row of the page, with the steps to fire.
type turn struct {
	seen   seen
	readAt time.Time // when it was last read
	was    state
	memory Memory
	alarms map[int64]alarm // by the starts of the clock for which steps have fired, in microseconds since 1970
	is     Decision
	events []event.Event // of the steps to fire
}

// alarm is the first step that has fired for a start of the clock. The row may have another key since, and the start
// another instant.
type alarm struct {
	key   string
	since time.Time
}

// state is the payload of a row.
type state struct {
	// From is set for a row that was done and counts again, and for one that came to the rule late: steps before it
	// do not fire. Since is the start of the clock that From and LeftOut are about. Nil: they are about any.
	From  *time.Time `json:"from,omitempty"`
	Since *time.Time `json:"since,omitempty"`
	// Start is the value behind Since, if it has no time zone.
	Start string `json:"start,omitempty"`
	// Came is when the row came to the rule, if a step may have passed then. LeftOut lists such steps that did not
	// fire.
	Came    *time.Time `json:"came,omitempty"`
	LeftOut []string   `json:"left_out,omitempty"`
	// Paused is since when the row is paused, and Used says how much of the delay of each step had passed then.
	Paused *time.Time `json:"paused,omitempty"`
	Used   []string   `json:"used,omitempty"`
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

// remember reads which steps have fired for the rows. A row may have fired steps before its first check: an earlier
// check of the same entity has, or the file of the rule has changed since.
func (p *page) remember(ctx context.Context) error {
	recovers := p.rule.Rule.Recovered != (Act{})
	of := make(map[string]int, len(p.rows))
	keys := make([]string, len(p.rows))
	for i, row := range p.rows {
		of[row.EntityKey], keys[i], p.turns[i].alarms = i, row.EntityKey, map[int64]alarm{}
	}
	type fired struct {
		key, step, start string
		number           int
		dueAt            sql.NullTime // of that number
		since            time.Time
		recovers         bool         // it has fired since the rule has Recovered
		left             sql.NullTime // steps before it were left out
		keyThen          string
	}
	list, err := pg.Collect(ctx, p.tx, pg.RuleFiredRead.In(p.Schema), []any{p.rule.Rule.Name, pq.StringArray(keys)},
		func(row *sql.Rows, f *fired) error {
			return row.Scan(&f.key, &f.since, &f.start, &f.step, &f.number, &f.dueAt, &f.recovers, &f.left, &f.keyThen)
		})
	if err != nil {
		return fmt.Errorf("read the steps of rule %s that have fired: %w", p.rule.Rule.Name, err)
	}
	type start struct{ key, value string }
	instants := map[start]time.Time{} // of starts without a time zone
	for _, f := range list {
		t := &p.turns[of[f.key]]
		first := alarm{f.keyThen, f.since}
		if f.start != "" { // the rule may have another zone since, or the zone another law
			is := start{f.key, f.start}
			switch at, known := instants[is]; {
			case f.start == t.seen.start:
				f.since = t.seen.Since
			case known:
				f.since = at
			default:
				instants[is] = f.since
			}
		}
		// Met has followed, also if the rule had it before a change of its file.
		met := f.step == MetStep && !slices.ContainsFunc(p.rule.Rule.Steps, func(s Step) bool { return s.Name == MetStep })
		if recovers && f.recovers && !met {
			t.memory.begins(f.since, f.step)
		}
		if _, known := t.alarms[f.since.UnixMicro()]; !known && !met {
			t.alarms[f.since.UnixMicro()] = first
		}
		if f.since.Equal(t.seen.Since) {
			t.memory.fires(f.step, Occurrence{f.number, f.dueAt.Time.UTC()})
			t.memory.From = grid.Later(t.memory.From, f.left.Time.UTC())
		}
	}
	return nil
}

// fires notes that an occurrence of a step has fired.
func (m *Memory) fires(step string, o Occurrence) {
	if m.Fired == nil {
		m.Fired = map[string]Occurrence{}
	}
	if o.Number >= m.Fired[step].Number {
		m.Fired[step] = o
	}
}

// plan decides about a row: it ends, or steps of it are due, or it waits. A row that moves is left to the next slot.
// Once steps were left out, the payload says so: a later change of Rule.Overdue is about other rows, and other starts
// of the clock.
func (p *page) plan(i int) {
	row, t := p.rows[i], &p.turns[i]
	if t.seen.moving {
		p.postpone(i)
		return
	}
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
	moved := was.Since != nil && t.seen.Counts && !was.Since.Equal(t.seen.Since)
	if moved && (was.Start == "" || was.Start != t.seen.start) {
		was.From, was.Since, was.Start, was.LeftOut = nil, nil, "", nil // the clock has moved
	}
	t.was = was
	if was.From != nil {
		t.memory.From = grid.Later(t.memory.From, *was.From)
	}
	if was.Came != nil {
		t.memory.Came = *was.Came
	}
	// A clock that moved back has moved the check, too, to before the slot for which the row waited first.
	t.memory.First = grid.Earlier(row.FirstCheckAt, row.Slot)
	if t.is, err = p.rule.decider(p.grid).Decide(t.seen.Row, t.memory, p.moment(row)); err != nil {
		p.results[i].Err = err
		return
	}
	if p.keep(t) {
		p.results[i].Payload, _ = json.Marshal(t.was) // never fails
	}
	switch {
	case !t.is.Next.IsZero():
		p.results[i].Next = &t.is.Next
	case len(t.is.Due) == 0:
		p.end(i, t.is.Found)
	}
}

// keep notes in the payload which steps were left out, and since when the row is paused. It reports whether the payload
// changes.
func (p *page) keep(t *turn) (changes bool) {
	for _, o := range t.is.LeftOut {
		t.was.LeftOut = append(t.was.LeftOut, Repetition(p.rule.Rule.Steps[o.Step].Name, o.Number))
		t.was.From, t.was.Since, t.was.Start = &t.is.From, &t.seen.Since, t.seen.start
	}
	paused := t.was.Paused
	t.was.Paused, t.was.Used = nil, nil
	if since := pausedSince(t.seen.Pauses); !since.IsZero() && t.seen.Counts && t.is.Found == "" {
		t.was.Paused, t.was.Used = &since, p.rule.used(t.seen.Row, t.memory.Fired)
	}
	return len(t.is.LeftOut) > 0 || paused != nil || t.was.Paused != nil
}

// moment returns when the check of a row looks at it. A check may be late, after an outage: the last slot that had
// begun when the check began counts.
func (p *page) moment(row jobs.FutureJob) Moment {
	now := row.Slot.Add(row.Lateness)
	return Moment{Begun: grid.Later(row.Slot, p.grid.Floor(now)), Slot: row.Slot, Unsettled: p.unsettled, Now: now}
}

// end ends a row with what was found.
func (p *page) end(i int, found string) {
	t := &p.turns[i]
	was := t.was // what could not be read is replaced
	was.Found, was.Fired = found, nil
	if p.rule != nil {
		for _, s := range p.rule.Rule.Steps {
			if n := t.memory.Fired[s.Name].Number; n > 0 {
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
	var keys, since, starts, steps []string
	var numbers []int64
	var due, left []sql.NullTime
	for i := range p.turns {
		t := &p.turns[i]
		if p.results[i].Err != nil {
			continue
		}
		orNull := func(at time.Time) sql.NullTime { return sql.NullTime{Time: at, Valid: !at.IsZero()} }
		add := func(at time.Time, step string, o Occurrence, before time.Time) {
			start := t.seen.start
			if !at.Equal(t.seen.Since) {
				start = "" // of another start, whose step has it
			}
			keys, starts = append(keys, p.rows[i].EntityKey), append(starts, start)
			since = append(since, string(pq.FormatTimestamp(at)))
			steps, numbers = append(steps, step), append(numbers, int64(o.Number))
			due, left = append(due, orNull(o.At)), append(left, orNull(before))
		}
		once := Occurrence{Number: 1}
		for _, at := range t.is.Over {
			add(at, RecoveredStep, once, time.Time{})
		}
		if t.is.Met {
			add(t.seen.Since, MetStep, once, time.Time{})
		}
		for _, d := range t.is.Due {
			name := p.rule.Rule.Steps[d.Step].Name
			add(t.seen.Since, name, d.Occurrence, t.is.From)
			t.memory.fires(name, d.Occurrence)
		}
		if t.is.Next.IsZero() && len(t.is.Due) > 0 {
			p.end(i, t.is.Found)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	recorded, err := pg.Collect(ctx, p.tx, pg.RuleFire.In(p.Schema), []any{
		p.rule.Rule.Name, pq.StringArray(keys), pq.StringArray(since), pq.StringArray(starts), pq.StringArray(steps),
		pq.Int64Array(numbers), pq.Array(due), pq.Array(left),
	}, func(row *sql.Rows, one *bool) error { return row.Scan(one) })
	if err != nil {
		return fmt.Errorf("record the steps of rule %s that fire: %w", p.rule.Rule.Name, err)
	}
	if len(recorded) != len(keys) {
		return fmt.Errorf("%w: a step of rule %s has fired before", jobs.ErrDivide, p.rule.Rule.Name)
	}
	return nil
}
