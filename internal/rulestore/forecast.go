package rulestore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
)

// StepForecast says for which rows of the table a step will fire, if no row changes until then.
type StepForecast struct {
	Step string `json:"step"` // its name
	// When is the time of the step, such as "after 48h".
	When string `json:"when"`
	// Does says what the step does, such as "event order.late".
	Does string `json:"does"`
	// Rows is for how many rows the step will fire. Of a step that repeats, the next time counts.
	Rows int64 `json:"rows"`
	// Fired is for how many rows the step has fired.
	Fired int64 `json:"fired"`
	// LeftOut is for how many rows the step has passed and will not fire.
	LeftOut int64 `json:"left_out"`
	// Keys has up to five keys of Rows, those of the first slots.
	Keys []string `json:"keys"`
	// Slots says in which slots the step will fire for the rows, in order.
	Slots []FiringSlot `json:"slots"`
}

// FiringSlot is the number of rows for which a step fires in a slot.
type FiringSlot struct {
	Slot time.Time `json:"slot"` // UTC
	// Timezone is the zone of the rule or of the rows, or else that of the step's calendar. Empty: UTC.
	Timezone string `json:"timezone"`
	Rows     int64  `json:"rows"` // for which the step fires
}

// maxForecastKeys bounds StepForecast.Keys.
const maxForecastKeys = 5

// forecast counts what the steps of a rule will do.
type forecast struct {
	rule  rule.Applied
	steps []stepCount
}

// stepCount counts what a step will do.
type stepCount struct {
	fired, leftOut int64
	slots          map[zoned]int64
	first          []firing // the first firings, at most maxForecastKeys
}

// zoned is a slot, and a zone whose clocks count for rows.
type zoned struct {
	slot time.Time
	zone string
}

// firing says that a step fires for a row.
type firing struct {
	zoned
	key string
}

func newForecast(r rule.Applied) *forecast {
	f := &forecast{rule: r, steps: make([]stepCount, len(r.Rule.Steps))}
	for i := range f.steps {
		f.steps[i].slots = map[zoned]int64{}
	}
	return f
}

// add adds the rows of a page.
func (f *forecast) add(p page) {
	for i, r := range p.rows {
		f.row(p.decider, r, p.decided[i])
	}
}

// row adds a row. Its next check decides as Decide does. The steps that have not passed by then fire by themselves.
func (f *forecast) row(d decider, r row, what decision) {
	if !r.Counts {
		return
	}
	memory, leftOut := r.memory, f.named(r.leftOut)
	slot := r.slot
	if what.fate != leave {
		slot, memory.Came, memory.From = d.slotOf(what.at), what.came, grid.Later(r.memory.From, what.from)
	}
	maps.Copy(leftOut, f.named(what.leftOut))
	fires := map[int]time.Time{}
	switch waits := what.fate != leave || r.waits; {
	case !waits:
		maps.Copy(leftOut, d.passed(r))
	case !r.Paused: // nothing says when a pause ends
		var is rule.Decision
		is, slot = d.next(r, memory, slot)
		for _, o := range is.Due {
			fires[o.Step] = slot
		}
		for _, o := range is.LeftOut {
			leftOut[o.Step] = true
		}
		f.later(d, r, memory, slot, fires)
	}
	for i, s := range d.Rule.Steps {
		c := &f.steps[i]
		at, will := fires[i]
		switch {
		case will && (r.DoneAt.IsZero() || r.DoneAt.After(at)):
			c.fire(firing{zoned{at, f.zone(i, r.Held)}, r.Key})
		case memory.Fired[s.Name].Number > 0:
			c.fired++
		case leftOut[i] && !will:
			c.leftOut++
		}
	}
}

// zone returns the zone whose clocks count for a row.
func (f *forecast) zone(step int, held []expr.Held) string {
	calendar := f.rule.Rule.Steps[step].Calendar
	zone := cmp.Or(f.rule.Rule.Timezone, f.rule.Calendars[calendar].Timezone)
	if f.rule.Rule.TimezoneName != "" && len(held) > 0 && held[0].Timezone != nil {
		return *held[0].Timezone
	}
	if zone == "" && step < len(held) && held[step].Calendar != nil {
		return f.rule.Calendars[*held[step].Calendar].Timezone
	}
	return zone
}

// named returns the indexes of the steps with names, which may be those of repetitions.
func (f *forecast) named(names []string) map[int]bool {
	steps := map[int]bool{}
	for _, name := range names {
		step, _ := rule.ParseRepetition(name)
		if i := slices.IndexFunc(f.rule.Rule.Steps, func(s rule.Step) bool { return s.Name == step }); i >= 0 {
			steps[i] = true
		}
	}
	return steps
}

// passed returns the indexes of the steps that have passed for a row. If the row does not wait, they do not fire.
func (d decider) passed(r row) map[int]bool {
	timing, steps := d.Timing.For(r.Held, r.Pauses), map[int]bool{}
	for i := range d.Rule.Steps {
		if last, _, err := timing.Around(i, r.Since, d.first.Add(-time.Microsecond)); err == nil && last.Number > 0 {
			steps[i] = true
		}
	}
	return steps
}

// next returns what the next check of a row decides, and its slot. A check that only lets the row wait for its place
// among those that are spread does not count.
func (d decider) next(r row, m rule.Memory, slot time.Time) (is rule.Decision, at time.Time) {
	alone := d.Decider
	alone.Facts = expr.Facts{} // no look at other tables between the steps
	alone.Rule.Recovered, alone.Rule.Met = rule.Act{}, rule.Act{}
	for range 2 {
		begun := grid.Later(slot, d.Grid.Floor(d.now))
		is, err := alone.Decide(r.Row, m, rule.Moment{Begun: begun, Slot: slot, Now: begun})
		if err != nil || len(is.Due) > 0 || len(is.LeftOut) > 0 || !is.Passed {
			return is, slot
		}
		slot = d.Grid.Ceil(is.Next)
	}
	return is, slot
}

// later adds the slots of the steps that do not fire in the slot of the next check.
func (f *forecast) later(d decider, r row, m rule.Memory, slot time.Time, fires map[int]time.Time) {
	timing := d.Timing.For(r.Held, r.Pauses).Continued(r.Since, d.Rule.Steps, m.Fired)
	begun := grid.Later(slot, d.Grid.Floor(d.now))
	for i, s := range d.Rule.Steps {
		if _, found := fires[i]; found {
			continue
		}
		_, next, err := timing.Around(i, r.Since, begun)
		if fired := m.Fired[s.Name].Number; err == nil && next.Number > 0 && next.Number <= fired { // after another delay
			next, err = timing.Nth(i, r.Since, fired+1)
		}
		if err == nil && next.Number > 0 {
			fires[i] = d.Grid.Ceil(next.At)
		}
	}
}

// fire counts a row for which the step fires.
func (c *stepCount) fire(f firing) {
	c.slots[f.zoned]++
	i, _ := slices.BinarySearchFunc(c.first, f, func(a, b firing) int {
		return cmp.Or(a.slot.Compare(b.slot), cmp.Compare(len(a.key), len(b.key)), cmp.Compare(a.key, b.key))
	})
	if i < maxForecastKeys {
		c.first = slices.Insert(c.first, i, f)
		c.first = c.first[:min(len(c.first), maxForecastKeys)]
	}
}

// list returns what was counted.
func (f *forecast) list() []StepForecast {
	list := make([]StepForecast, len(f.steps))
	for i, c := range f.steps {
		s := f.rule.Rule.Steps[i]
		list[i] = StepForecast{
			Step: s.Name, When: s.When(), Does: s.Does(), Fired: c.fired, LeftOut: c.leftOut,
			Keys: make([]string, len(c.first)), Slots: []FiringSlot{},
		}
		for n, first := range c.first {
			list[i].Keys[n] = first.key
		}
		inOrder := func(a, b zoned) int { return cmp.Or(a.slot.Compare(b.slot), cmp.Compare(a.zone, b.zone)) }
		for _, z := range slices.SortedFunc(maps.Keys(c.slots), inOrder) {
			list[i].Rows += c.slots[z]
			list[i].Slots = append(list[i].Slots, FiringSlot{z.slot, z.zone, c.slots[z]})
		}
	}
	return list
}
