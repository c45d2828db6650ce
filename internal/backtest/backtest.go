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
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulesession"
	"github.com/prescient-go/prescient/internal/rulestore"
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
	// Record says where to read what the rule has fired since it was applied. Nil: the table alone says what it would
	// have done.
	Record *Record
	// Progress is called with the number of rows that were read, before the first one and after each. Optional.
	Progress func(rows int64)
}

// Run reads the rows of a rule's table, and says what each step would have done.
func Run(ctx context.Context, db pgsql.Pool, r rule.Applied, cfg Config) (Report, error) {
	if len(r.Facts.Changed) > 0 {
		return Report{}, r.Rule.Problem("since", "the table does not say when %s changed before, so the rule cannot be "+
			"tested on the past: to test its steps, write an instant of the table for since, in a copy of the file",
			strings.Join(r.Facts.Changed, ", "))
	}
	if len(r.Facts.Pause) > 0 {
		return Report{}, r.Rule.Problem("pause", "the table does not say when rows were paused before, so the rule cannot "+
			"be tested on the past: to test its steps as if no row had been paused, leave pause out, in a copy of the file")
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

	calendar int // the step whose calendar alternatives have

	rows    int64
	unknown rulestore.UnknownNames
	tallies []*tally // of the steps, then of the alternatives
	over    *tally   // of Rule.Recovered; nil: the rule has none
	met     *tally   // of Rule.Met; nil: the rule has none
	fired   []Fired
	record  *record
}

func newTest(r rule.Applied, cfg Config) (*test, error) {
	t := &test{cfg: cfg, rule: r}
	all := r.Rule
	all.Steps = slices.Clone(all.Steps)
	for _, after := range cfg.After {
		s := rule.Step{After: after}
		if after.Business() {
			t.calendar = calendarOf(r.Rule)
			if s.Calendar = cfg.Calendar; s.Calendar == "" && t.calendar >= 0 {
				s.Calendar, s.CalendarName = r.Rule.Steps[t.calendar].Calendar, r.Rule.Steps[t.calendar].CalendarName
			}
			if _, found := r.Calendars[s.Calendar]; !found && s.CalendarName == "" {
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
		one := rule.Decider{Rule: rule.Rule{Steps: []rule.Step{s}}, Grid: cfg.Grid}
		one.Rule.Timezone, one.Rule.TimezoneName = all.Timezone, all.TimezoneName
		if one.Timing, err = rule.NewTiming(one.Rule, r.Calendars); err != nil {
			return nil, err
		}
		t.deciders = append(t.deciders, one)
	}
	return t, nil
}

// calendarOf returns the index of the first step with a calendar, or -1 if no step has one.
func calendarOf(r rule.Rule) int {
	return slices.IndexFunc(r.Steps, func(s rule.Step) bool { return s.Calendar+s.CalendarName != "" })
}

// reset forgets the rows of a transaction that failed.
func (t *test) reset() {
	t.rows, t.unknown, t.fired, t.tallies, t.over, t.met = 0, rulestore.UnknownNames{}, []Fired{}, nil, nil, nil
	if t.rule.Rule.Recovered != (rule.Act{}) {
		t.over = newTally(Step{Name: rule.RecoveredStep, When: rule.RecoveredWhen})
	}
	if t.rule.Rule.Met != (rule.Act{}) {
		t.met = newTally(Step{Name: rule.MetStep, When: rule.MetWhen})
	}
	for _, s := range t.rule.Rule.Steps {
		t.tallies = append(t.tallies, newTally(Step{Name: s.Name, When: s.When()}))
	}
	for _, after := range t.cfg.After {
		t.tallies = append(t.tallies, newTally(Step{When: rule.Step{After: after}.When()}))
	}
	t.record = newRecord(t.cfg.Record)
}

// read counts the rows of the table. Names without a schema are those of PostgreSQL, as in the
// triggers of the rule.
func (t *test) read(ctx context.Context, tx *sqlx.Tx) error {
	if err := t.readRecord(ctx, tx); err != nil {
		return err
	}
	if err := t.readTable(ctx, tx); err != nil {
		return err
	}
	return t.resolve(ctx, tx)
}

func (t *test) readTable(ctx context.Context, tx *sqlx.Tx) error {
	setting := rulesession.Read
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
			prescient_done, prescient_held, coalesce(prescient_start, ''), prescient_about
		from (
			select %s as prescient_key, %s as prescient_since, %s as prescient_done_at, %s as prescient_done,
				%s as prescient_held, %s as prescient_start, %s as prescient_about
			from %s
			offset 0
		) as prescient_row
		where (prescient_about or $3) and prescient_since >= $1 and ($2::timestamptz is null or prescient_since < $2)`,
		t.rule.KeyText(t.rule.Name()), f.SinceSQL(), f.DoneAtSQL(), f.DoneNowSQL(), f.HeldSQL(), f.StartSQL(),
		f.WhereSQL(), t.rule.Relation)
	rows, err := tx.QueryContext(ctx, query, t.cfg.From, t.before(), t.record.any())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for n := int64(0); ; n++ {
		if t.cfg.Progress != nil {
			t.cfg.Progress(n)
		}
		if !rows.Next() {
			return rows.Err()
		}
		var r past
		var held []sql.NullString
		err := rows.Scan(&r.key, &r.since, &r.done, &r.doneNow, pq.Array(&held), &r.start, &r.about)
		if r.held, r.since = t.held(expr.ReadHeld(held)), r.since.UTC(); err == nil {
			err = t.row(r)
		}
		if err != nil {
			return err
		}
	}
}

// held adds to what the data of a row hold what they hold for the alternatives: the zone, and the calendar of a step.
func (t *test) held(of []expr.Held) []expr.Held {
	if len(of) == 0 {
		return nil
	}
	list := make([]expr.Held, len(t.deciders))
	copy(list, of)
	for i := range list {
		list[i].Timezone = of[0].Timezone
		if i >= len(t.rule.Rule.Steps) && t.calendar >= 0 && t.calendar < len(of) {
			list[i].Calendar = of[t.calendar].Calendar
		}
	}
	return list
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

// past is a row of the table, as it is now.
type past struct {
	key     string
	since   time.Time
	start   string // the value behind since, if it has no time zone
	done    sql.NullTime
	doneNow bool // by a condition
	about   bool // false: Rule.Where has left it out since
	held    []expr.Held
	fired   map[string]recorded // since then, by step
}

// row counts a row for each step.
func (t *test) row(r past) error {
	timing := t.timing.For(r.held, nil)
	r.fired = t.record.take(r.key, r.since, r.start)
	if !r.about && r.fired == nil || t.cfg.To.IsZero() && !t.begun(r.since, timing) {
		return nil
	}
	if unknown := timing.Unknown(); len(unknown) > 0 {
		t.unknown.Add(unknown)
		return nil
	}
	t.rows++
	waits, alarmed := false, false // for a step, and one has fired
	for i, tally := range t.tallies {
		is, err := t.step(i, r)
		if err != nil {
			return fmt.Errorf("key %s: %w", r.key, err)
		}
		if is.never {
			continue
		}
		was, recorded := r.fired[tally.Name]
		if recorded && is.fired == 0 { // a step that has fired may have closed its own row
			is.fired = was.times
			t.fire(tally, Fired{Key: r.key, Due: is.first, Slot: t.cfg.Grid.Ceil(is.first).UTC(), Number: 1, index: i})
		}
		own := i < len(t.rule.Rule.Steps)
		waits, alarmed = waits || own, alarmed || own && is.fired > 0
		switch month := tally.month(r.since); {
		case is.fired > 0:
			month.add(is.fired, recorded)
			t.record.lacks(tally, r.key, recorded)
		case own && !is.met && !is.open && t.record.waits(r.key, tally, month):
		default:
			month.end(is.met, is.open)
		}
	}
	if t.over != nil && waits {
		t.follow(t.over, r, len(t.rule.Rule.Steps), alarmed)
	}
	// A row that was always done has never waited.
	if always := r.done.Valid && r.done.Time.Year() <= 1; t.met != nil && waits && !alarmed && !always {
		t.follow(t.met, r, len(t.rule.Rule.Steps)+1, true)
	}
	return nil
}

// outcome says whether a step would have fired for a row, and why not.
type outcome struct {
	never     bool // the step never fires for the row
	first     time.Time
	fired     int64 // how often the step would have fired
	met, open bool  // the row was done by then, or the slot is still to come
}

// step says what would have become of a row at one step. It lets the rule decide at each slot for which the row would
// have waited.
func (t *test) step(i int, r past) (is outcome, err error) {
	d, tally := t.deciders[i], t.tallies[i]
	row := rule.Row{
		Key: r.key, There: true, About: true, Since: r.since, Counts: true, Held: r.held[min(i, len(r.held)):],
	}
	next, err := d.Timing.For(row.Held, nil).Nth(0, row.Since, 1)
	if err == nil && next.Number == 0 {
		return outcome{never: true}, nil
	}
	is.first = next.At
	ended := r.doneNow || !r.about // the table does not say since when
	memory := rule.Memory{Fired: map[string]rule.Occurrence{}}
	for at := next.At; err == nil && !at.IsZero(); {
		slot := t.cfg.Grid.Ceil(at).UTC()
		// After the present, the row counts as it is now.
		is.open = slot.After(t.cfg.Now)
		row.Done = r.done.Valid && !r.done.Time.After(slot) && !r.done.Time.After(t.cfg.Now) || ended && is.open
		is.met = row.Done
		var what rule.Decision
		what, err = d.Decide(row, memory, rule.Moment{Begun: slot, Slot: slot, Now: slot})
		if err == nil && (len(what.Due) == 0 || is.open || ended) {
			return is, nil
		}
		for _, o := range what.Due {
			is.fired++
			memory.Fired[d.Rule.Steps[0].Name] = o.Occurrence
			t.fire(tally, Fired{Key: row.Key, Due: o.At, Slot: slot, Number: o.Number, index: i})
		}
		at = what.Next
	}
	return is, err
}

// fire counts that a step fires.
func (t *test) fire(of *tally, f Fired) {
	f.Step = of.Name
	of.fire(f)
	if t.cfg.List && (f.index < len(t.rule.Rule.Steps) || of == t.over || of == t.met) {
		t.fired = append(t.fired, f)
	}
}

// follow counts a row for Rule.Recovered or Rule.Met, and index is its place behind the steps. follows tells that it
// follows once the row is done.
func (t *test) follow(of *tally, r past, index int, follows bool) {
	month := of.month(r.since)
	ended := r.done.Valid && !r.done.Time.After(t.cfg.Now)
	was, recorded := r.fired[of.Name]
	if !recorded && (!follows || !ended) {
		month.end(ended, !r.doneNow && r.about)
		return
	}
	at := was.at
	if ended {
		at = r.done.Time
	}
	month.add(1, recorded)
	t.record.lacks(of, r.key, recorded)
	t.fire(of, Fired{Key: r.key, Due: at.UTC(), Slot: t.cfg.Grid.Ceil(at).UTC(), Number: 1, index: index})
}

func (t *test) report() Report {
	slices.SortFunc(t.fired, compareFired)
	r := Report{
		Name: t.rule.Rule.Name, Table: t.rule.Rule.Table, From: t.cfg.From.UTC(), Rows: t.rows,
		Unknown: t.unknown.Rows(), Names: t.unknown.Most(), To: cmp.Or(t.cfg.To, t.cfg.Now).UTC(), List: t.fired,
		Steps: []Step{}, Alternatives: []Step{}, Recorded: t.record != nil,
	}
	for i, tally := range t.tallies {
		if i < len(t.rule.Rule.Steps) {
			r.Steps = append(r.Steps, tally.step())
		} else {
			r.Alternatives = append(r.Alternatives, tally.step())
		}
	}
	for _, tally := range []*tally{t.over, t.met} {
		if tally != nil {
			r.Steps = append(r.Steps, tally.step())
		}
	}
	return r
}
