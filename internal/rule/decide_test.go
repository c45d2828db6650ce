package rule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
)

// decided describes a decision: what was found, the steps that fire, those that are left out, and the next day.
func decided(r rule.Rule, is rule.Decision) string {
	var parts []string
	list := func(what string, of []rule.Due) {
		var names []string
		for _, o := range of {
			names = append(names, rule.Repetition(r.Steps[o.Step].Name, o.Number))
		}
		if len(names) > 0 {
			parts = append(parts, what+" "+strings.Join(names, ","))
		}
	}
	list("fires", is.Due)
	list("leaves out", is.LeftOut)
	if is.Found != "" {
		parts = append(parts, is.Found)
	}
	if !is.Next.IsZero() {
		parts = append(parts, fmt.Sprintf("day %.6g", is.Next.Sub(day0).Hours()/24))
	}
	return strings.Join(parts, ", ")
}

func TestARuleDecidesInOnePlace(t *testing.T) {
	t.Parallel()
	const (
		slot = 1. / 96 // of a day
		tick = 1. / 24 / 3600
	)
	days := func(n int) rule.Delay { return rule.Delay{Duration: time.Duration(n) * 24 * time.Hour} }
	ab := []rule.Step{{Name: "a", After: days(2)}, {Name: "b", After: days(4)}}
	never := rule.Step{Name: "b", After: rule.Delay{BusinessTime: 20_000 * time.Hour}, Calendar: "monday"}
	daily := []rule.Step{{Name: "a", After: days(2), Every: days(1), Times: 5}}
	fire, last, skip := rule.Overdue{Policy: rule.OverdueFire}, rule.Overdue{Policy: rule.OverdueLast}, rule.Overdue{Policy: rule.OverdueSkip}
	paced := []rule.Step{{Name: "a", After: days(2), EveryInterval: "e", TimesCount: "n"}}
	week := &expr.Length{Days: 7}
	data := func(h expr.Held) func(*rule.Row) { return func(r *rule.Row) { r.Held = []expr.Held{h} } }
	at := func(step string, n int, due float64) map[string]rule.Occurrence {
		return map[string]rule.Occurrence{step: {Number: n, At: day(due)}}
	}
	spread := rule.Overdue{Policy: rule.OverdueSpread, Slots: 8}
	hold := rule.Rule{Entity: "order", Overdue: spread}
	held := hold.SlotFor(grid.Default, day(5), "1").Sub(day0).Hours() / 24
	lookup := expr.Facts{Since: []expr.Expr{{Lookup: true}}, Done: []expr.Expr{{Lookup: true}}}
	open := rule.Row{Key: "1", There: true, About: true, Counts: true, Since: day0}
	as := func(change func(*rule.Row)) rule.Row {
		row := open
		change(&row)
		return row
	}
	resumed := func(r *rule.Row) { r.Pauses = []rule.Pause{{From: day(3), To: day(4)}} }
	for name, test := range map[string]struct {
		steps   []rule.Step
		overdue rule.Overdue
		facts   expr.Facts
		row     rule.Row
		memory  rule.Memory
		at      float64 // the slot that has begun, in days
		more    func(*rule.Moment)
		want    string
	}{
		"a row that is gone ends":       {row: rule.Row{}, at: 2, want: "gone"},
		"a row outside ends":            {row: as(func(r *rule.Row) { r.About = false }), at: 2, want: "outside"},
		"a row without an instant ends": {row: as(func(r *rule.Row) { r.Counts = false }), at: 2, want: "outside"},
		"without an instant, it is looked at again if another table has it": {
			row: as(func(r *rule.Row) { r.Counts = false }), facts: lookup, at: 2, want: "day 2.00347",
		},
		"a row that is done ends": {row: as(func(r *rule.Row) { r.Done = true }), at: 2, want: "done"},
		"it says when it was done": {
			row: as(func(r *rule.Row) { r.Done, r.DoneAt = true, day(1) }), at: 2, want: "done at 2030-03-02T12:00:00Z",
		},
		"before its first step it waits": {row: open, at: 1, want: "day 2"},
		"a step fires at its instant":    {row: open, at: 2, want: "fires a, day 4"},
		"it does not fire twice":         {row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 1})}, at: 2, want: "day 4"},
		"after the last step the row ends": {
			row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 1})}, at: 4, want: "fires b, open",
		},
		"after an outage all steps fire":                             {row: open, at: 5, want: "fires a,b, open"},
		"after an outage the last time of a step that repeats fires": {steps: daily, row: open, at: 4.5, want: "fires a#3, day 5"},
		"a step that repeats keeps its number with a longer delay": {
			steps: daily, row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 4})}, at: 3.5, want: "day 6",
		},
		"after a change of its delays, it goes on from its last time": {
			steps: daily, row: open, memory: rule.Memory{Fired: at("a", 4, 7)}, at: 7.5, want: "day 8",
		},
		"without one, it goes on from its first time": {
			steps: daily, row: open, memory: rule.Memory{Fired: at("a", 3, 4)}, at: 4.5, want: "day 5",
		},
		"after a change and an outage, the last time fires that is passed": {
			steps: daily, row: open, memory: rule.Memory{Fired: at("a", 2, 1.5)}, at: 3.5, want: "fires a#4, day 4.5",
		},
		"the first time has fired and comes later now": {
			steps: daily, row: open, memory: rule.Memory{Fired: at("a", 1, 0.5)}, at: 0.75, want: "day 1.5",
		},
		"it has fired more often than it shall now": {
			steps: paced, row: as(data(expr.Held{Every: week, Times: new(int64(2))})),
			memory: rule.Memory{Fired: at("a", 3, 4)}, at: 40, want: "open",
		},
		"the row says how often": {
			steps: paced, row: as(data(expr.Held{Every: week, Times: new(int64(2))})), memory: rule.Memory{Fired: at("a", 1, 2)}, at: 9,
			want: "fires a#2, open",
		},
		"the row says that it never fires": {
			steps: paced, row: as(data(expr.Held{Every: week, Times: new(int64(-3))})), at: 9, want: "open",
		},
		"the row does not say how often": {
			steps: paced, row: as(data(expr.Held{Every: week})), at: 100, want: "fires a#15, day 107",
		},
		"the row has no delay between the times": {steps: paced, row: as(data(expr.Held{})), at: 100, want: "fires a, open"},
		"the row has a delay that is no delay": {
			steps: paced, row: as(data(expr.Held{Every: &expr.Length{Days: 3, Time: -72 * time.Hour}})), at: 100, want: "fires a, open",
		},
		"the row has a delay of less than a minute": {
			steps: paced, row: as(data(expr.Held{Every: &expr.Length{Time: time.Microsecond}})), at: 2 + slot, want: "fires a#16, day 2.01111",
		},
		"a shorter delay of the row": {
			steps: paced, row: as(data(expr.Held{Every: &expr.Length{Days: 1}})), memory: rule.Memory{Fired: at("a", 2, 9)}, at: 9.5,
			want: "day 10",
		},
		"a longer delay of the row": {
			steps: paced, row: as(data(expr.Held{Every: week})), memory: rule.Memory{Fired: at("a", 9, 10)}, at: 10.5, want: "day 17",
		},
		"a step that fires later now has a check, although it has fired": {
			row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 1, "b": 1})}, at: 1, want: "day 2",
		},
		"a step that comes before one that has fired does not fire": {
			row: open, memory: rule.Memory{Fired: fired(map[string]int{"b": 1})}, at: 5, want: "leaves out a, open",
		},
		"it fires if its delay is that of the row": {
			steps:  []rule.Step{{Name: "a", Interval: "x"}, ab[1]},
			row:    as(func(r *rule.Row) { r.Held = []expr.Held{{After: &expr.Length{Days: 2}}, {}} }),
			memory: rule.Memory{Fired: fired(map[string]int{"b": 1})}, at: 5, want: "fires a, open",
		},
		"it fires if the delay of that one is that of the row, which has changed since": {
			steps:  []rule.Step{{Name: "a", Interval: "x"}, ab[1]},
			row:    as(func(r *rule.Row) { r.Held = []expr.Held{{After: &expr.Length{Days: 5}}, {}} }),
			memory: rule.Memory{Fired: fired(map[string]int{"a": 1})}, at: 6, want: "fires b, open",
		},
		"steps before a row counted again do not fire": {row: open, memory: rule.Memory{From: day(3)}, at: 5, want: "fires b, open"},
		"a late row fires the last step": {
			overdue: last, row: open, memory: rule.Memory{Came: day(5)}, at: 5 + slot, want: "fires b, leaves out a, open",
		},
		"last is the default": {row: open, memory: rule.Memory{Came: day(5)}, at: 5 + slot, want: "fires b, leaves out a, open"},
		"with fire it fires all": {
			overdue: fire, row: open, memory: rule.Memory{Came: day(5)}, at: 5 + slot, want: "fires a,b, open",
		},
		"with skip it fires none": {
			overdue: skip, row: open, memory: rule.Memory{Came: day(3)}, at: 3 + slot, want: "leaves out a, day 4",
		},
		"with spread it waits for its slot": {
			overdue: spread, row: open, memory: rule.Memory{Came: day(5)}, at: 5, want: fmt.Sprintf("day %.6g", held),
		},
		"in that slot all fire": {
			overdue: spread, row: open, memory: rule.Memory{Came: day(5)}, at: held, want: "fires a,b, open",
		},
		"a step has passed once its slot has begun": {
			overdue: skip, row: open, memory: rule.Memory{Came: day(2 + 5*tick)}, at: 2 + slot, want: "leaves out a, day 4",
		},
		"before, it has not": {
			overdue: skip, row: as(func(r *rule.Row) { r.Since = day(-10 * tick) }), memory: rule.Memory{Came: day(-5*tick + 2)},
			at: 2, want: "fires a, day 3.99988",
		},
		"an outage after a row came is not late": {
			overdue: skip, row: open, memory: rule.Memory{Came: day(3)}, at: 5, want: "fires b, leaves out a, open",
		},
		"what another table may have ended is looked at again": {
			facts: lookup, row: as(func(r *rule.Row) { r.Done = true }), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"a done row whose data say how often is looked at again": {
			steps: paced, row: as(func(r *rule.Row) { r.Done, r.Held = true, []expr.Held{{Every: week}} }), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"a done row of a rule with a pause is looked at again": {
			facts: expr.Facts{Pause: []expr.Expr{{SQL: "held"}}}, row: as(func(r *rule.Row) { r.Done = true }), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"a done row with an instant, which may have been to come when it was written, is looked at again": {
			row: as(func(r *rule.Row) { r.Done, r.DoneAt = true, day(1.999) }), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"so is one whose instant has come since the slot": {
			row: as(func(r *rule.Row) { r.Done, r.DoneAt = true, day(2.001) }), at: 2, want: "day 2.01042",
		},
		"one without an instant of the clock is looked at again": {
			row: as(func(r *rule.Row) { r.Counts = false }), at: 2, more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"one that is not there is looked at again": {
			row: rule.Row{}, at: 2, more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"one that is spread is looked at again": {
			overdue: spread, row: open, memory: rule.Memory{Came: day(5)}, at: 5,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 5.01042",
		},
		"one that is done by its own columns ends": {
			row: as(func(r *rule.Row) { r.Done = true }), at: 2, more: func(m *rule.Moment) { m.Unsettled = true }, want: "done",
		},
		"a row that is paused is looked at daily": {
			row: as(func(r *rule.Row) { r.Paused = true }), at: 2, want: "day 3",
		},
		"after the pause, overdue decides about the steps that had passed when it came": {
			overdue: skip, row: as(resumed), memory: rule.Memory{Came: day(3)}, at: 4, want: "leaves out a, day 5",
		},
		"with fire they fire together": {
			overdue: fire, row: as(resumed), memory: rule.Memory{Came: day(3)}, at: 5, want: "fires a,b, open",
		},
		"with spread they do so if its slot has begun": {
			overdue: spread, row: as(resumed), memory: rule.Memory{Came: day(3)}, at: 4, want: "fires a, day 5",
		},
		"an open transaction may end its pause": {
			row: as(func(r *rule.Row) { r.Paused = true }), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"an open transaction may let a row fire that never does": {
			steps: paced, row: as(data(expr.Held{Every: week, Times: new(int64(0))})), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"it may give a row its delay": {
			steps: []rule.Step{{Name: "a", Interval: "x"}}, row: as(data(expr.Held{})), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"it may shorten the delay of a row": {
			steps: []rule.Step{{Name: "a", Interval: "x"}}, row: as(data(expr.Held{After: &expr.Length{Days: 10}})), at: 2,
			more: func(m *rule.Moment) { m.Unsettled = true }, want: "day 2.01042",
		},
		"an open transaction may move the clock": {
			row: open, at: 2, more: func(m *rule.Moment) { m.Unsettled = true }, want: "fires a, day 2.01042",
		},
		"the clock that another table moves is looked at after the last step": {
			facts: lookup, row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 1, "b": 1})}, at: 5, want: "day 5.00347",
		},
		"a step without an instant does not hold up the others": {
			steps: []rule.Step{ab[0], never}, row: open, at: 2, want: "fires a, day 2.01042",
		},
		"in the end, it fails": {
			steps: []rule.Step{ab[0], never}, row: open, memory: rule.Memory{Fired: fired(map[string]int{"a": 1})}, at: 2,
			want: "step b: the calendar has too little working time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rule.Rule{Entity: "order", Steps: test.steps, Overdue: test.overdue}
			if r.Steps == nil {
				r.Steps = ab
			}
			timing, err := rule.NewTiming(r, map[string]rule.Calendar{"monday": {Hours: "mon 09:00-09:01"}})
			if err != nil {
				t.Fatal(err)
			}
			moment := rule.Moment{Begun: day(test.at), Slot: day(test.at), Now: day(test.at)}
			if test.more != nil {
				test.more(&moment)
			}
			d := rule.Decider{Rule: r, Timing: timing, Facts: test.facts, Grid: grid.Default}
			is, err := d.Decide(test.row, test.memory, moment)
			got := decided(r, is)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, test.want) || test.want == "" {
				t.Errorf("it decides %q, want %q", got, test.want)
			}
		})
	}
}

// fired returns the last occurrences of steps, whose instants are not known.
func fired(numbers map[string]int) map[string]rule.Occurrence {
	list := map[string]rule.Occurrence{}
	for step, n := range numbers {
		list[step] = rule.Occurrence{Number: n}
	}
	return list
}

func TestAStepWhoseDelayIsTooLongDoesNotSilenceTheStepsBeforeIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(
		rule.Step{After: rule.Delay{Duration: 4 * 24 * time.Hour}, Event: "soon"}, rule.Step{Interval: "interval '100 years'", Event: "never"},
	), func(a *rule.Applied) { a.Facts.After = []expr.Expr{{}, {SQL: "interval '100 years'", Type: expr.Span}} }))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	diff(t, []string{"soon 1"}, s.published())
	s.wants(map[string]string{"1": "day 3.652e+04"})
}
