package rulestore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/spoken"
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

// Action says how an Apply treats a rule.
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
	// Unstarted is the number of rows without an instant since which delays count. Another table may start their clock:
	// they are looked at every Rule.Recheck, or else after a write to a table of Rule.Also.
	Unstarted int64 `json:"unstarted"`
	// Paused is the number of rows whose clocks stand still. What their steps will do is not known.
	Paused int64 `json:"paused"`
	// Unknown is the number of rows whose data name no calendar of the file, or no time zone: their checks fail.
	Unknown int64 `json:"unknown"`
	// Names has up to five names that are not known, those of the most rows first.
	Names []NameCount `json:"names"`
	// Slots says for which slots the rows of Begin and Retimed will wait, in order.
	Slots []SlotCount `json:"slots"`
	// Forecast says what each step will do. Empty for an Apply.
	Forecast []StepForecast `json:"forecast"`

	slots    map[time.Time]int64
	names    UnknownNames
	rule     understood
	timing   *rule.Timing
	triggers []trigger
	// before creates the type of what the triggers read of a row, and after the functions that they call. It tests
	// that all triggers are those of one table.
	before, after string
	also          string // creates the triggers of Rule.Also. Empty: they are there
	was           *Status
	walks         bool // the rows of the table have to be looked at
	begun         bool // an Apply has created the triggers
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
	p.Names = orEmpty(p.Names)
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

// Rechecks reports whether the rows of Unstarted are looked at every Rule.Recheck.
func (p RulePlan) Rechecks() bool { return p.rule.Rule.RecheckEvery() > 0 }

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

// count adds what an apply does with the rows of a page.
func (p *RulePlan) count(next page) {
	for i, r := range next.rows {
		what := next.decided[i]
		p.Counting++
		if what.passed {
			p.Overdue++
		}
		if !r.Counts {
			p.Unstarted++
		}
		if r.Paused {
			p.Paused++
		}
		if r.Counts {
			p.names.Add(next.decider.Timing.For(r.Held, nil).Unknown())
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
	p.slots, p.Slots, p.names = map[time.Time]int64{}, nil, UnknownNames{}
}

// close fills in what follows from the numbers.
func (p *RulePlan) close() {
	p.Refused = p.Overdue > 0 && p.rule.Rule.Overdue == rule.Overdue{}
	if p.Overdue > 0 && p.rule.Rule.Overdue.Policy == rule.OverdueSkip {
		p.Warnings = append(p.Warnings, fmt.Sprintf("overdue: skip leaves out the steps that have passed of %s: of a row "+
			"that waits for a later step, they never fire for that start of the clock. About any other row, overdue decides "+
			"again when an apply looks at it", spoken.Count(p.Overdue, "row", "rows")))
	}
	p.Unknown, p.Names = p.names.Rows(), p.names.Most()
	for _, slot := range slices.SortedFunc(maps.Keys(p.slots), time.Time.Compare) {
		p.Slots = append(p.Slots, SlotCount{Slot: slot, Rows: p.slots[slot]})
	}
}

// OptionPlan is an option of a rule that changes. A value is a text, or else JSON.
type OptionPlan struct {
	Name string `json:"name"` // of the option
	// Was is its value before. Empty: the rule did not have it.
	Was string `json:"was"`
	// Is is its value now. Empty: it is gone.
	Is string `json:"is"`
}
