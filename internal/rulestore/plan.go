package rulestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/rule"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Plan says what an Apply of a file would do.
type Plan struct {
	// Rules are those of the file, in its order.
	Rules []RulePlan `json:"rules"`
	// Unlisted are the rules of the database that the file does not have. Apply leaves them.
	Unlisted []string `json:"unlisted"`
}

// Changes reports whether an Apply would change anything.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Rules, func(r RulePlan) bool {
		return r.Action != Unchanged && (r.Action != Again || r.Begin+r.Retimed > 0)
	})
}

// Action is what an Apply does with a rule.
type Action string

// The actions.
const (
	Create    Action = "create"
	Change    Action = "change"
	Resume    Action = "resume" // an Apply has died
	Unchanged Action = "unchanged"
	Again     Action = "again" // the rule is unchanged, and its rows are looked at
)

// RulePlan says what an Apply would do for one rule. The numbers of rows are those of the moment.
type RulePlan struct {
	Name   string `json:"name"`   // of the rule
	Table  string `json:"table"`  // with its schema
	Action Action `json:"action"` // create, change, resume (an apply has died), unchanged, or again (with --again)
	// Was is a rule of the database that the file does not have, if it has the same table and steps as
	// a rule that is created: perhaps the name before. What it has fired counts for its name alone.
	Was string `json:"was"`
	// Warnings says what the plan does not refuse, such as an index that a subquery lacks.
	Warnings []string `json:"warnings"`
	// Unseen has the tables that the rule looks up, and whose changes no trigger tells.
	Unseen []string `json:"unseen"`
	// Triggers names the triggers that Apply would create or replace.
	Triggers []string `json:"triggers"`
	// Steps says what becomes of the steps of a rule that changes.
	Steps []StepPlan `json:"steps"`
	// Options says which other options of a rule change, such as overdue.
	Options []OptionPlan `json:"options"`
	// Counting is the number of rows of the table that the rule is about, and for which the expected
	// thing has not happened. The other numbers are parts of it.
	Counting int64 `json:"counting"`
	// Begin is the number of rows that do not wait yet, and will.
	Begin int64 `json:"begin"`
	// Retimed is the number of rows that wait, and will for another slot.
	Retimed int64 `json:"retimed"`
	// Waiting is the number of rows that wait as they should.
	Waiting int64 `json:"waiting"`
	// Overdue is the number of rows for which a step has passed that has not fired. Refused tells
	// that the rule must say what happens to them.
	Overdue int64 `json:"overdue"`
	Refused bool  `json:"refused"` // the rule does not say what happens to the rows of Overdue
	// Unstarted is the number of rows without an instant since which delays count. They are looked at every
	// Rule.Recheck, because another table may start their clock.
	Unstarted int64 `json:"unstarted"`
	// Paused is the number of rows whose clocks stand still. What their steps will do is not known.
	Paused int64 `json:"paused"`
	// Slots says for which slots the rows of Begin and Retimed will wait, in order.
	Slots []SlotCount `json:"slots"`
	// Forecast says what each step will do. Empty for an Apply.
	Forecast []StepForecast `json:"forecast"`

	slots    map[time.Time]int64
	rule     understood
	timing   *rule.Timing
	triggers []trigger
	// before creates the type of what the triggers read of a row, and after the functions that they call. It tests
	// that all triggers are those of one table.
	before, after string
	also          string // creates the triggers of Rule.Also. Empty: they are there
	was           *Status
	walks         bool // the rows of the table have to be looked at
}

// MarshalJSON writes an empty list as [], not null.
func (p Plan) MarshalJSON() ([]byte, error) {
	type fields Plan
	p.Rules, p.Unlisted = orEmpty(p.Rules), orEmpty(p.Unlisted)
	return json.Marshal(fields(p))
}

// MarshalJSON writes an empty list as [], not null.
func (p RulePlan) MarshalJSON() ([]byte, error) {
	type fields RulePlan
	p.Warnings, p.Unseen, p.Triggers = orEmpty(p.Warnings), orEmpty(p.Unseen), orEmpty(p.Triggers)
	p.Steps, p.Options, p.Slots, p.Forecast = orEmpty(p.Steps), orEmpty(p.Options), orEmpty(p.Slots), orEmpty(p.Forecast)
	return json.Marshal(fields(p))
}

// orEmpty returns a list that is not nil.
func orEmpty[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}

// SlotCount is a number of rows in a slot.
type SlotCount struct {
	Slot time.Time `json:"slot"` // UTC
	Rows int64     `json:"rows"` // of the rule, in this slot
	// Waiting is the number of rows of all jobs that wait in the slot already. Above 1,000 rows of a
	// job it is an estimate. Null: it was not counted, for an Apply or after the first 100 slots.
	Waiting *int64 `json:"waiting"`
}

// besideSlots is for how many slots of a rule Plan counts what waits in them already.
const besideSlots = 100

// StepPlan says what a rule that changes takes a step for.
type StepPlan struct {
	Name string `json:"name"` // of the step
	// Was is the time of the step of that name before, such as "after 48h". Empty: the step is new.
	Was string `json:"was"`
	// Is is its time now. Empty: the step is gone.
	Is string `json:"is"`
}

// OverdueError says that rows are overdue, and the rule does not say what happens to them.
type OverdueError struct {
	Rule string
	Line int
	Rows int64
}

// Error names the policies.
func (e *OverdueError) Error() string {
	message := fmt.Sprintf("steps of %s have passed already: say what happens to them, with overdue: "+
		"fire (all of them, in the next slot), last (the latest one), skip (only the steps to come) or spread 8 "+
		"(all, over the next 8 slots)",
		spoken.Count(e.Rows, "row", "rows"))
	return (&rule.Problem{Line: e.Line, Rule: e.Rule, Message: message}).Error()
}

// Plan returns what Apply would do with the rules of a file, and changes nothing. It reads each
// table, page by page. The error joins a Problem for each mistake, and a RightsError if the login may
// not read the table.
func (s *Store) Plan(ctx context.Context, file rule.File) (Plan, error) {
	plan, err := s.prepare(ctx, file, false)
	if err != nil {
		return Plan{}, err
	}
	for i := range plan.Rules {
		f := newForecast(plan.Rules[i].rule.Applied)
		if err := s.count(ctx, &plan.Rules[i], f.add); err != nil {
			return Plan{}, s.unread(ctx, plan.Rules[i], err)
		}
		plan.Rules[i].Forecast = f.list()
		if err := s.beside(ctx, plan.Rules[i].Slots); err != nil {
			return Plan{}, fmt.Errorf("count what waits in the slots of rule %s: %w", plan.Rules[i].Name, err)
		}
	}
	return plan, nil
}

// unread adds the table and the rule to an error about reading the table, unless it is a Problem of the file.
func (s *Store) unread(ctx context.Context, p RulePlan, err error) error {
	err = s.Explain(ctx, p.rule.Applied, err)
	if problem, ok := errors.AsType[*rule.Problem](err); ok {
		return problem
	}
	return fmt.Errorf("read table %s for rule %s: %w", p.Table, p.Name, err)
}

// prepare finds out what is to do, without reading the tables. create tells that the login will
// create triggers.
func (s *Store) prepare(ctx context.Context, file rule.File, create bool) (Plan, error) {
	known, err := s.List(ctx)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	var problems []error
	for _, asked := range file.Rules {
		i := slices.IndexFunc(known, func(k Status) bool { return k.Rule.Name == asked.Name })
		var was *Status
		if i >= 0 {
			was = &known[i]
		}
		p, err := s.prepareRule(ctx, file, resolver{store: s, rule: asked, reading: !create}, was)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		plan.Rules = append(plan.Rules, p)
	}
	for _, k := range known {
		if !slices.ContainsFunc(file.Rules, func(r rule.Rule) bool { return r.Name == k.Rule.Name }) {
			plan.Unlisted = append(plan.Unlisted, k.Rule.Name)
		}
	}
	for i := range plan.Rules {
		plan.Rules[i].renamed(known, plan.Unlisted)
	}
	return plan, errors.Join(problems...)
}

// renamed looks for the name before of a rule that is created, among the rules that the file does not
// have.
func (p *RulePlan) renamed(known []Status, unlisted []string) {
	for _, k := range known {
		if p.Action == Create && k.State != Removing && k.Relation == p.Table && slices.Contains(unlisted, k.Rule.Name) &&
			slices.EqualFunc(k.Rule.Steps, p.rule.Rule.Steps, func(a, b rule.Step) bool {
				return a.When() == b.When() && a.Calendar == b.Calendar
			}) {
			p.Was = k.Rule.Name
		}
	}
}

func (s *Store) prepareRule(ctx context.Context, file rule.File, r resolver, was *Status) (RulePlan, error) {
	asked := r.rule
	u, err := s.understand(ctx, file, r)
	if u.KeyType != "" {
		err = errors.Join(err, s.statements(ctx, u))
	}
	if err != nil {
		return RulePlan{}, err
	}
	from, err := s.notedFrom(ctx, &u, was)
	if err != nil {
		return RulePlan{}, err
	}
	p := RulePlan{
		Name: asked.Name, Table: u.Relation, Action: Create, rule: u, was: was, walks: true, slots: map[time.Time]int64{},
		Unseen: u.unseen(),
	}
	never, err := s.never(ctx, u.Applied)
	if err == nil {
		p.Warnings, err = s.lookups(ctx, u.Applied)
	}
	if err != nil {
		return RulePlan{}, err
	}
	if p.Warnings = slices.Concat(never, p.Warnings, floods(u.Applied), from); u.zone != "" {
		p.Warnings = append(p.Warnings, u.zone)
	}
	if p.timing, err = rule.NewTiming(u.Rule, u.Calendars); err != nil {
		return RulePlan{}, asked.Problem("steps", "%v", err)
	}
	if was == nil {
		was, err = s.refuseWaiting(ctx, asked)
		p.was = was
	}
	if err != nil {
		return RulePlan{}, err
	}
	fill := u.filler(s.schema, p.timing)
	before, after, all := triggersOf(s.schema, u, fill)
	key, err := s.find(ctx, u, was, all)
	if err != nil {
		return RulePlan{}, fmt.Errorf("find the triggers of rule %s: %w", asked.Name, err)
	}
	if was != nil {
		moved, err := s.moved(ctx, *was, u)
		if err != nil {
			return RulePlan{}, fmt.Errorf("find the table of rule %s: %w", asked.Name, err)
		}
		if err := p.compare(*was, moved, key); err != nil {
			return RulePlan{}, err
		}
	}
	for _, t := range all {
		// Rows that were written without a trigger do not wait. One of another version has missed none.
		p.walks = p.walks || !t.works
		if !t.there {
			p.Triggers = append(p.Triggers, t.name)
		}
		// Those of a new rule have let nothing wait until now.
		if !t.there || was == nil {
			p.before, p.triggers, p.after = u.settings(s.schema)+before, append(p.triggers, t), after
		}
	}
	if err := s.planAlso(ctx, &p, fill); err != nil {
		return RulePlan{}, fmt.Errorf("find the triggers of rule %s: %w", asked.Name, err)
	}
	if was != nil && len(p.triggers)+len(p.also) > 0 && p.Action == Unchanged {
		p.Action = Change
	}
	if s.again {
		p.walks = true
		if p.Action == Unchanged {
			p.Action = Again
		}
	}
	return p, nil
}

// notedFrom sets the instants from which changed(...) counts for rows that have not changed since, and from which rows
// are paused that were before. They stay when a rule is applied again. It returns a warning for each that is that of
// the apply.
func (s *Store) notedFrom(ctx context.Context, u *understood, was *Status) (warnings []string, err error) {
	f, old := &u.Facts, expr.Facts{}
	if !f.Noted() {
		return nil, nil
	}
	if was != nil {
		old = was.Facts
	}
	var now time.Time
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &now, "select "+present, s.clock())
	})
	note := func(has, same bool, from *time.Time, before time.Time, warning string) {
		switch {
		case !has:
		case same:
			*from = before
		default:
			*from, warnings = now.UTC(), append(warnings, warning)
		}
	}
	note(len(f.Changed) > 0, slices.Equal(f.Changed, old.Changed), &f.ChangedFrom, old.ChangedFrom,
		"no table tells when the rows that are there have changed: their clocks start with the apply")
	note(len(f.Pause) > 0, slices.Equal(f.Pause, old.Pause), &f.PausedFrom, old.PausedFrom,
		"no table tells since when the rows that are there are paused: their pauses begin with the apply")
	return warnings, err
}

// refuseWaiting returns an error if checks of the job of a new rule wait already. They may have instants
// and payloads that are not those of the rule. If another apply has made the rule meanwhile, the checks are
// its own, and refuseWaiting returns the rule.
func (s *Store) refuseWaiting(ctx context.Context, asked rule.Rule) (*Status, error) {
	found, err := admin.New(s.client).CountCancel(ctx, s.db, admin.CancelFilter{JobExec: asked.Name})
	if err != nil || found.Checks == 0 {
		return nil, err
	}
	made, err := s.Get(ctx, asked.Name)
	if !errors.Is(err, ErrNotFound) {
		return &made, err
	}
	return nil, asked.Problem("name", "%s of job %s wait already: cancel them with `prescient jobs cancel %[2]s`, or "+
		"give the rule another name", spoken.Count(found.Checks, "check", "checks"), spoken.Word(asked.Name))
}

// count adds what an apply does with the rows of a page.
func (p *RulePlan) count(next page) {
	for i, r := range next.rows {
		what := next.decided[i]
		p.Counting++
		if what.passed {
			p.Overdue++
		}
		if !r.counts {
			p.Unstarted++
		}
		if r.paused {
			p.Paused++
		}
		switch what.fate {
		case begin:
			p.Begin++
			p.slots[next.decider.slotOf(what.at)]++
		case retime:
			p.Retimed++
			p.slots[next.decider.slotOf(what.at)]++
		case leave:
			if r.waits {
				p.Waiting++
			}
		}
	}
}

// reset forgets what was counted.
func (p *RulePlan) reset() {
	p.Counting, p.Begin, p.Retimed, p.Waiting, p.Overdue, p.Unstarted, p.Paused, p.Refused = 0, 0, 0, 0, 0, 0, 0, false
	p.slots, p.Slots = map[time.Time]int64{}, nil
}

// close fills in what follows from the numbers.
func (p *RulePlan) close() {
	p.Refused = p.Overdue > 0 && p.rule.Rule.Overdue == rule.Overdue{}
	if p.Overdue > 0 && p.rule.Rule.Overdue.Policy == rule.OverdueSkip {
		p.Warnings = append(p.Warnings, fmt.Sprintf("overdue: skip leaves out the steps that have passed of %s: they never "+
			"fire for that start of the clock, also if another file is applied later", spoken.Count(p.Overdue, "row", "rows")))
	}
	for _, slot := range slices.SortedFunc(maps.Keys(p.slots), time.Time.Compare) {
		p.Slots = append(p.Slots, SlotCount{Slot: slot, Rows: p.slots[slot]})
	}
}

// moved reports whether the table of a rule has another name or schema since the rule was applied.
func (s *Store) moved(ctx context.Context, was Status, u understood) (moved bool, err error) {
	if was.Relation == u.Relation {
		return false, nil
	}
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &moved, pg.RuleMoved.In(s.schema), was.Relation, u.Relation,
			pq.Array(triggerNames(s.schema, u.Applied)))
	})
	return moved, err
}

// compare says what changes since the rule was applied. moved tells that its table has another name. key
// is the name that the column has which was the key then.
func (p *RulePlan) compare(was Status, moved bool, key string) error {
	is := p.rule.Rule
	switch {
	case was.State == Removing:
		return is.Problem("name", "the rule is being removed: finish that first, with `prescient rules remove %s --yes`",
			is.Name)
	case was.Relation != p.rule.Relation && !moved:
		return is.Problem("table", "the rule is about table %s: remove it first, or give this one another name", was.Relation)
	case moved && was.Rule.Entity != is.Entity:
		return is.Problem("entity",
			"the checks that wait have the entity %s, from the name that table %s had: write entity: %[1]s",
			was.Rule.Entity, was.Relation)
	case was.Key != p.rule.Key && key != p.rule.Key || was.Rule.Entity != is.Entity:
		return is.Problem("key",
			"the checks that wait have the key %s of entity %s: remove the rule first, or give this one another name",
			was.Key, was.Rule.Entity)
	}
	wanted := p.rule.Applied
	same := reflect.DeepEqual(plain(was.Applied), plain(wanted))
	p.walks = was.State == Applying || !reflect.DeepEqual(timed(was.Applied), timed(wanted))
	p.Action = Change
	switch {
	case same && was.State == Applying:
		p.Action = Resume
	case same:
		p.Action = Unchanged
		return nil
	}
	p.Steps = stepPlans(was.Rule.Steps, is.Steps)
	var err error
	p.Options, err = optionPlans(plain(was.Applied).Rule, plain(wanted).Rule)
	return err
}

// definitionOf returns the JSON of column definition.
func definitionOf(a rule.Applied) (string, error) {
	text, err := json.Marshal(a)
	return string(text), err
}

// plain returns a rule as it is read from the database, so that two can be compared.
func plain(a rule.Applied) (comparable rule.Applied) {
	definition, err := definitionOf(a)
	if err == nil {
		err = json.Unmarshal([]byte(definition), &comparable)
	}
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return comparable
}

// timed returns what decides whether and when rows wait.
func timed(a rule.Applied) any {
	a = plain(a)
	for i := range a.Rule.Steps {
		a.Rule.Steps[i] = timeOf(a.Rule.Steps[i])
	}
	return []any{a.Facts, a.Rule.Steps, a.Calendars}
}

// OptionPlan is an option of a rule that changes. A value is a text, or else JSON.
type OptionPlan struct {
	Name string `json:"name"` // of the option
	// Was is its value before. Empty: the rule did not have it.
	Was string `json:"was"`
	// Is is its value now. Empty: it is gone.
	Is string `json:"is"`
}

// optionPlans compares two versions of a rule, but for their steps.
func optionPlans(was, is rule.Rule) (plans []OptionPlan, err error) {
	before, err := optionsOf(was)
	if err != nil {
		return nil, err
	}
	now, err := optionsOf(is)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(now))
	for name := range before {
		if _, ok := now[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if w, n := before[name], now[name]; w != n && name != "steps" {
			plans = append(plans, OptionPlan{name, w, n})
		}
	}
	return plans, nil
}

// optionsOf returns the values of the options of a rule, by their names in JSON.
func optionsOf(r rule.Rule) (options map[string]string, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	options = map[string]string{}
	for name, value := range values {
		var plain string
		if json.Unmarshal(value, &plain) != nil {
			plain = string(value)
		}
		options[name] = plain
	}
	return options, nil
}

// stepPlans pairs the steps of two versions of a rule by their names.
func stepPlans(was, is []rule.Step) (plans []StepPlan) {
	for _, s := range is {
		p := StepPlan{Name: s.Name, Is: s.When()}
		for _, w := range was {
			if w.Name == s.Name {
				p.Was = w.When()
			}
		}
		plans = append(plans, p)
	}
	for _, w := range was {
		if !slices.ContainsFunc(is, func(s rule.Step) bool { return s.Name == w.Name }) {
			plans = append(plans, StepPlan{Name: w.Name, Was: w.When()})
		}
	}
	return plans
}

// find marks the triggers that the table has, and those that it has in the same version. It returns the name that the
// column has now which was the key when the rule was applied. Empty: it is not known.
func (s *Store) find(ctx context.Context, u understood, was *Status, all []trigger) (key string, err error) {
	var found []struct {
		Name     string         `db:"name"`
		Body     string         `db:"body"`
		Argument string         `db:"argument"`
		Definer  bool           `db:"definer"`
		Behind   bool           `db:"behind"`
		Reads    pq.StringArray `db:"reads"`
	}
	err = pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		found = nil
		return tx.SelectContext(ctx, &found, pg.RuleTriggers.In(s.schema), u.Relation,
			pq.Array(triggerNames(s.schema, u.Applied)), pg.Rules.In(s.schema),
			triggerName(s.schema, u.Rule.Name, rowFunction))
	})
	for i := range all {
		t := &all[i]
		for _, f := range found {
			argument := ""
			if t.argument != "" {
				argument = hex.EncodeToString([]byte(t.argument + "\x00"))
			}
			usable := f.Name == t.name && f.Definer && !f.Behind && len(f.Reads) > 0
			t.there = t.there || usable && f.Body == t.body && f.Argument == argument && slices.Equal(f.Reads, u.Reads)
			if usable && was != nil && len(f.Reads) == len(was.Reads) {
				key = f.Reads[slices.Index(was.Reads, was.Key)] // Reads has the key
				usable = !u.replaced(was.Reads, f.Reads)
			}
			t.works = t.works || usable
		}
	}
	return key, err
}

// replaced reports whether a column has taken the name of another that triggers read. was has the names
// of those columns when the rule was applied, and is the names now.
func (u understood) replaced(was, is []string) bool {
	for i, name := range was {
		named := func(c column) bool { return pq.QuoteIdentifier(c.Name) == name }
		if name != is[i] && slices.ContainsFunc(u.table.columns, named) {
			return true
		}
	}
	return false
}

// walk returns a walk over the table of the rule.
func (s *Store) walk(p *RulePlan) *walk {
	w := &walk{store: s, rule: p.rule, timing: p.timing, grid: s.client.Grid(), known: p.was != nil}
	if p.was != nil {
		w.steps = sameTimes(p.was.Applied, p.rule.Applied)
	}
	return w
}

// Recorded returns the names of the steps of a rule that come at the same instants as those of the rule that was
// applied under its name: what they have fired is recorded. Empty: there are none, or the rule is not applied.
func (s *Store) Recorded(ctx context.Context, is rule.Applied) (steps []string, err error) {
	if s.client == nil {
		return nil, nil
	}
	was, err := s.Get(ctx, is.Rule.Name)
	if errors.Is(err, ErrNotFound) || err == nil && (was.Relation != is.Relation || was.Rule.Entity != is.Rule.Entity) {
		return nil, nil
	}
	for name, same := range sameTimes(was.Applied, is) {
		if same {
			steps = append(steps, name)
		}
	}
	slices.Sort(steps)
	return steps, err
}

// sameTimes returns the names of the steps that come at the same instants in two versions of a rule.
func sameTimes(was, is rule.Applied) map[string]bool {
	was, is = plain(was), plain(is)
	clock := func(a rule.Applied) any {
		return []any{a.Facts.Since, a.Facts.Changed, a.Facts.Pause, a.Facts.Zone, a.Calendars}
	}
	if !reflect.DeepEqual(clock(was), clock(is)) {
		return nil
	}
	same := map[string]bool{}
	for _, s := range is.Rule.Steps {
		same[s.Name] = slices.ContainsFunc(was.Rule.Steps, func(w rule.Step) bool {
			return w.Name == s.Name && reflect.DeepEqual(timeOf(w), timeOf(s))
		})
	}
	return same
}

// timeOf returns a step without what it does.
func timeOf(s rule.Step) rule.Step {
	s.Event, s.SQL, s.Job, s.Notify = "", "", "", rule.Notify{}
	return s
}

// count reads the table and fills in the numbers of a rule. also is called with each page.
func (s *Store) count(ctx context.Context, p *RulePlan, also func(page)) error {
	w := s.walk(p)
	for {
		var next page
		err := pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) (err error) {
			next, err = w.read(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		p.count(next)
		also(next)
		if w.after = next.last; next.end {
			break
		}
	}
	if !p.walks { // an apply does not touch the rows
		p.Waiting, p.Begin, p.Retimed, p.Overdue = p.Waiting+p.Retimed, 0, 0, 0
		clear(p.slots)
	}
	p.close()
	return nil
}

// beside fills in what waits already in the first slots.
func (s *Store) beside(ctx context.Context, slots []SlotCount) error {
	slots = slots[:min(len(slots), besideSlots)]
	if len(slots) == 0 {
		return nil
	}
	asked := make([]string, len(slots))
	for i, c := range slots {
		asked[i] = string(pq.FormatTimestamp(c.Slot))
	}
	return pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error {
		_, err := pg.Collect(ctx, tx, pg.RuleBeside.In(s.schema), []any{pq.Array(asked)},
			func(row *sql.Rows, _ *struct{}) error {
				var slot time.Time
				var waiting int64
				err := row.Scan(&slot, &waiting)
				for i := range slots {
					if slots[i].Slot.Equal(slot) {
						slots[i].Waiting = &waiting
					}
				}
				return err
			})
		return err
	})
}

// SQL returns the statements that create the triggers of the rules of a file and their functions,
// for a team's own migrations. An Apply finds them, and creates none again.
func (s *Store) SQL(ctx context.Context, file rule.File) (string, error) {
	text := ""
	var problems []error
	for _, asked := range file.Rules {
		u, err := s.understand(ctx, file, resolver{store: s, rule: asked, reading: true})
		var timing *rule.Timing
		if err == nil {
			timing, err = rule.NewTiming(u.Rule, u.Calendars)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		fill := u.filler(s.schema, timing)
		before, after, all := triggersOf(s.schema, u, fill)
		if text == "" {
			text = u.settings(s.schema)
		}
		text += before
		for _, t := range all {
			text += t.function + "\n" + t.create + "\n\n"
		}
		text += after
		if len(u.Also) > 0 {
			_, also := u.alsoTriggers(s.schema, fill)
			text += also
		}
	}
	return text, errors.Join(problems...)
}
