package backtest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/jobs/rule"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a test of a rule. From and Now must be set.
type Config struct {
	// From and To bound the rows: those that began to wait at From or later, and before To. Without To, a row has
	// begun if its clock has started by Now, or if a step before that was due by Now.
	From, To time.Time
	// Now is the present. Steps whose slots are later have not been decided.
	Now time.Time
	// Grid has the slots. Defaults to slots of 15 minutes.
	Grid grid.Grid
	// After are other delays to try, each as the only step of the rule. Business time counts by
	// Calendar.
	After []rule.Delay
	// Calendar names the calendar of After. Defaults to that of the first step with one.
	Calendar string
	// List collects Report.List, in memory.
	List bool
}

// Run reads the rows of a rule's table, and says what each step would have done.
func Run(ctx context.Context, db pgsql.Pool, r rule.Applied, cfg Config) (Report, error) {
	if len(r.Facts.Changed) > 0 {
		return Report{}, r.Rule.Problem("since", "the table does not say when %s changed before, so the rule cannot be "+
			"tested on the past", strings.Join(r.Facts.Changed, ", "))
	}
	t, err := newTest(r, cfg)
	if err != nil {
		return Report{}, err
	}
	err = pgsql.ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		t.reset()
		return t.read(ctx, tx)
	})
	if err != nil {
		return Report{}, fmt.Errorf("read %s for rule %s: %w", r.Relation, r.Rule.Name, err)
	}
	return t.report(), nil
}

// test is a test of a rule under way.
type test struct {
	cfg    Config
	rule   rule.Applied
	timing *rule.Timing
	// deciders decide about each step and each alternative as if it were the only step.
	deciders []rule.Decider

	rows    int64
	tallies []*tally // of the steps, then of the alternatives
	over    *tally   // of the event of Rule.Recovered; nil: the rule has none
	fired   []Fired
}

func newTest(r rule.Applied, cfg Config) (*test, error) {
	t := &test{cfg: cfg, rule: r}
	all := r.Rule
	all.Steps = slices.Clone(all.Steps)
	for _, after := range cfg.After {
		s := rule.Step{After: after}
		if after.Business() {
			s.Calendar = cfg.calendar(r.Rule)
			if _, found := r.Calendars[s.Calendar]; !found {
				return nil, fmt.Errorf("a delay of %s needs a calendar: no step of rule %s names one", after, r.Rule.Name)
			}
		}
		all.Steps = append(all.Steps, s)
	}
	var err error
	if t.timing, err = rule.NewTiming(all, r.Calendars); err != nil {
		return nil, err
	}
	for _, s := range all.Steps {
		one := rule.Decider{Rule: rule.Rule{Steps: []rule.Step{s}, Timezone: all.Timezone}, Grid: cfg.Grid}
		if one.Timing, err = rule.NewTiming(one.Rule, r.Calendars); err != nil {
			return nil, err
		}
		t.deciders = append(t.deciders, one)
	}
	return t, nil
}

// calendar returns the calendar of the alternatives.
func (c Config) calendar(r rule.Rule) string {
	if i := slices.IndexFunc(r.Steps, func(s rule.Step) bool { return s.Calendar != "" }); c.Calendar == "" && i >= 0 {
		return r.Steps[i].Calendar
	}
	return c.Calendar
}

// reset forgets the rows of a transaction that failed.
func (t *test) reset() {
	t.rows, t.fired, t.tallies, t.over = 0, []Fired{}, nil, nil
	if t.rule.Rule.Recovered != (rule.Recovered{}) {
		t.over = newTally(Step{Name: rule.RecoveredStep, When: "when it is over"})
	}
	for _, s := range t.rule.Rule.Steps {
		t.tallies = append(t.tallies, newTally(Step{Name: s.Name, When: s.When()}))
	}
	for _, after := range t.cfg.After {
		t.tallies = append(t.tallies, newTally(Step{When: rule.Step{After: after}.When()}))
	}
}

// read counts the rows of the table. Names without a schema are those of PostgreSQL, as in the
// triggers of the rule.
func (t *test) read(ctx context.Context, tx *sqlx.Tx) error {
	setting := rule.ReadSettings
	if role := t.rule.Rule.Role; role != "" {
		setting += "; set local role " + pq.QuoteIdentifier(role)
	}
	if _, err := tx.ExecContext(ctx, setting); err != nil {
		return fmt.Errorf("prepare the transaction: %w", err)
	}
	f := t.rule.Facts
	query := fmt.Sprintf(`
		select prescient_key, prescient_since,
			case when prescient_done_at < 'infinity' then greatest(prescient_done_at, '0001-01-01Z') end,
			prescient_done, prescient_lengths
		from (
			select %s::text as prescient_key, %s as prescient_since, %s as prescient_done_at, %s as prescient_done,
				%s as prescient_lengths, %s as prescient_about
			from %s
			offset 0
		) as prescient_row
		where prescient_about and prescient_since >= $1 and ($2::timestamptz is null or prescient_since < $2)`,
		t.rule.Name()+"."+t.rule.Key, f.SinceSQL(), f.DoneAtSQL(), f.DoneNowSQL(), f.LengthsSQL(), f.WhereSQL(),
		t.rule.Relation)
	rows, err := tx.QueryContext(ctx, query, t.cfg.From, t.before())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		var since time.Time
		var done sql.NullTime
		var doneNow bool
		var lengths []sql.NullInt64
		if err := rows.Scan(&key, &since, &done, &doneNow, pq.Array(&lengths)); err != nil {
			return err
		}
		if err := t.row(key, since, done, doneNow, expr.Lengths(lengths)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// before returns the instant before which the clock of a row must have started. Null: begun decides.
func (t *test) before() sql.NullTime {
	back := func(s rule.Step) bool { return s.Before != rule.Delay{} || s.Interval != "" }
	switch {
	case !t.cfg.To.IsZero():
		return sql.NullTime{Time: t.cfg.To, Valid: true}
	case slices.ContainsFunc(t.rule.Rule.Steps, back):
		return sql.NullTime{}
	}
	return sql.NullTime{Time: t.cfg.Now, Valid: true}
}

// begun reports whether a row counts in a test without Config.To.
func (t *test) begun(since time.Time, timing *rule.Timing) bool {
	if since.Before(t.cfg.Now) {
		return true
	}
	for i := range t.tallies {
		first, err := timing.Nth(i, since, 1)
		if err == nil && first.Number > 0 && !t.cfg.Grid.Ceil(first.At).After(t.cfg.Now) {
			return true
		}
	}
	return false
}

// row counts a row for each step.
func (t *test) row(key string, since time.Time, done sql.NullTime, doneNow bool, lengths []*expr.Length) error {
	timing := t.timing.For(lengths)
	if t.cfg.To.IsZero() && !t.begun(since, timing) {
		return nil
	}
	t.rows++
	row := rule.Row{Key: key, There: true, About: true, Since: since, Counts: true}
	waits, alarmed := false, false // for a step, and one has fired
	for i, tally := range t.tallies {
		row.Lengths = lengths[min(i, len(lengths)):]
		fired, err := t.step(i, row, done, doneNow)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		if fired < 0 {
			continue
		}
		waits = waits || i < len(t.rule.Rule.Steps)
		if fired > 0 {
			month := tally.month(since)
			month.Fired, month.Again = month.Fired+1, month.Again+fired-1
			alarmed = alarmed || i < len(t.rule.Rule.Steps)
		}
	}
	if t.over != nil && waits {
		t.recovered(key, since, done, doneNow, alarmed)
	}
	return nil
}

// step counts a row for one step, and returns how often the step would have fired. It lets the rule decide at each slot
// for which the row would have waited. -1: the step never fires for the row.
func (t *test) step(i int, row rule.Row, done sql.NullTime, doneNow bool) (fired int64, err error) {
	d, tally := t.deciders[i], t.tallies[i]
	next, err := d.Timing.For(row.Lengths).Nth(0, row.Since, 1)
	if err == nil && next.Number == 0 {
		return -1, nil
	}
	memory := rule.Memory{Fired: map[string]int{}}
	for at := next.At; err == nil && !at.IsZero(); {
		slot := t.cfg.Grid.Ceil(at).UTC()
		// After the present, the row counts as it is now. Before, a condition does not say since when it is true.
		open := slot.After(t.cfg.Now)
		row.Done = done.Valid && !done.Time.After(slot) && !done.Time.After(t.cfg.Now) || doneNow && open
		var is rule.Decision
		is, err = d.Decide(row, memory, rule.Moment{Begun: slot, Slot: slot, Now: slot})
		if err == nil && (len(is.Due) == 0 || open || doneNow) {
			if fired == 0 {
				tally.month(row.Since).end(row.Done, open)
			}
			return fired, nil
		}
		for _, o := range is.Due {
			f := Fired{Step: tally.Name, Key: row.Key, Due: o.At, Slot: slot, Number: o.Number, index: i}
			fired++
			memory.Fired[d.Rule.Steps[0].Name] = o.Number
			tally.fire(f)
			if t.cfg.List && i < len(t.rule.Rule.Steps) {
				t.fired = append(t.fired, f)
			}
		}
		at = is.Next
	}
	return fired, err
}

// recovered counts a row for the event of Rule.Recovered. alarmed tells that a step has fired.
func (t *test) recovered(key string, since time.Time, done sql.NullTime, doneNow, alarmed bool) {
	month := t.over.month(since)
	ended := done.Valid && !done.Time.After(t.cfg.Now)
	if !alarmed || !ended {
		month.end(ended, !doneNow)
		return
	}
	month.Fired++
	f := Fired{
		Step: rule.RecoveredStep, Key: key, Due: done.Time.UTC(), Slot: t.cfg.Grid.Ceil(done.Time).UTC(), Number: 1,
		index: len(t.rule.Rule.Steps),
	}
	t.over.fire(f)
	if t.cfg.List {
		t.fired = append(t.fired, f)
	}
}

func (t *test) report() Report {
	slices.SortFunc(t.fired, compareFired)
	r := Report{
		Name: t.rule.Rule.Name, Table: t.rule.Rule.Table, From: t.cfg.From.UTC(), Rows: t.rows,
		To: cmp.Or(t.cfg.To, t.cfg.Now).UTC(), List: t.fired, Steps: []Step{}, Alternatives: []Step{},
	}
	for i, tally := range t.tallies {
		if i < len(t.rule.Rule.Steps) {
			r.Steps = append(r.Steps, tally.step())
		} else {
			r.Alternatives = append(r.Alternatives, tally.step())
		}
	}
	if t.over != nil {
		r.Steps = append(r.Steps, t.over.step())
	}
	return r
}
