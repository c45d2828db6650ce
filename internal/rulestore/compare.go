package rulestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
)

// renamed looks for the name before of a rule that is created, among the rules that the file does not
// have.
func (p *RulePlan) renamed(known []Status, unlisted []string) {
	for _, k := range known {
		if p.Action == Create && k.State != Removing && k.Relation == p.Table && slices.Contains(unlisted, k.Rule.Name) &&
			slices.EqualFunc(k.Rule.Steps, p.rule.Rule.Steps, func(a, b rule.Step) bool {
				return a.When() == b.When() && a.Calendar == b.Calendar && a.CalendarName == b.CalendarName
			}) {
			p.Was = k.Rule.Name
		}
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
// has the names that the columns have which were the key then.
func (p *RulePlan) compare(was Status, moved bool, key []string) error {
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
	case !slices.Equal(was.Key, p.rule.Key) && !slices.Equal(key, p.rule.Key) || was.Rule.Entity != is.Entity:
		return is.Problem("key",
			"the checks that wait have the key %s of entity %s: remove the rule first, or give this one another name",
			was.Key.String(), was.Rule.Entity)
	}
	before, now := plain(was.Applied), plain(p.rule.Applied)
	same := reflect.DeepEqual(before, now)
	p.walks = was.State == Applying || !reflect.DeepEqual(timed(before), timed(now))
	p.Action = Change
	switch {
	case same && was.State == Applying:
		p.Action = Resume
	case same:
		p.Action = Unchanged
		return nil
	}
	p.Steps = stepPlans(was.Rule.Steps, is.Steps)
	p.Options = append(optionPlans("", optionsOf(before.Rule), optionsOf(now.Rule), optionText),
		optionPlans("calendar ", before.Calendars, now.Calendars, calendarText)...)
	return nil
}

// optionPlans compares values of two versions of a rule by their names. text shows a value.
func optionPlans[T any](kind string, was, is map[string]T, text func(T) string) (plans []OptionPlan) {
	all := map[string]T{}
	maps.Copy(all, was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		before, had := was[name]
		now, has := is[name]
		if had == has && reflect.DeepEqual(before, now) {
			continue
		}
		p := OptionPlan{Name: kind + name}
		if had {
			p.Was = text(before)
		}
		if has {
			p.Is = text(now)
		}
		if p.Was == p.Is { // no text has the days of files
			p.Is = "its files have other days"
		}
		plans = append(plans, p)
	}
	return plans
}

// calendarText returns a calendar as JSON, without the days of its files.
func calendarText(c rule.Calendar) string {
	c.Holidays = slices.Clone(c.Holidays)
	for _, f := range c.Files {
		c.Holidays = append(c.Holidays, fmt.Sprintf("%s of file %s", spoken.Count(len(f.Days), "day", "days"), f.Name))
	}
	c.Files = nil
	text, _ := json.Marshal(c) // never fails
	return string(text)
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

// timed returns what decides whether and when rows wait, by a rule that plain has returned.
func timed(a rule.Applied) any {
	a.Rule.Steps = slices.Clone(a.Rule.Steps)
	for i := range a.Rule.Steps {
		a.Rule.Steps[i] = timeOf(a.Rule.Steps[i])
	}
	return []any{a.Facts, a.Rule.Steps, a.Calendars, a.Rule.RecheckEvery()}
}

// optionsOf returns the options of a rule but for its steps, by their names in JSON.
func optionsOf(r rule.Rule) (options map[string]json.RawMessage) {
	r.Steps = nil
	text, _ := json.Marshal(r) // never fails
	_ = json.Unmarshal(text, &options)
	return options
}

// optionText returns the text of an option, or its JSON if it is no text.
func optionText(value json.RawMessage) (text string) {
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
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
	is.Facts.Pause, is.Facts.PausedFrom = was.Facts.Pause, was.Facts.PausedFrom // a test leaves it out
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
		return []any{a.Facts.Since, a.Facts.Changed, a.Facts.Pause, a.Facts.Zone, a.Facts.Timezone, a.Calendars}
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

// timedAsBefore returns the names of the steps that come at the instants for which rows wait: neither this apply nor
// one that has died before it has changed them.
func (p *RulePlan) timedAsBefore() map[string]bool {
	same := sameTimes(p.was.Applied, p.rule.Applied)
	for _, name := range p.was.Retimed {
		delete(same, name)
	}
	return same
}

// retimed returns the names of the other steps.
func (p *RulePlan) retimed() pq.StringArray {
	names := pq.StringArray{} // not null in the database
	same := p.timedAsBefore()
	for _, s := range p.rule.Rule.Steps {
		if !same[s.Name] {
			names = append(names, s.Name)
		}
	}
	return names
}

// timeOf returns a step without what it does.
func timeOf(s rule.Step) rule.Step {
	s.Event, s.SQL, s.Job, s.Notify = "", "", "", rule.Notify{}
	return s
}
