package rulestore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rulestore"
)

// forecast lists what the steps of a plan's only rule will do: the step, its rows by slot, the keys, and how many rows
// it has fired for and leaves out.
func forecast(plan rulestore.Plan) string {
	var lines []string
	for _, s := range plan.Rules[0].Forecast {
		line := s.Step
		for _, slot := range s.Slots {
			line += fmt.Sprintf(" %s:%d", slot.Slot.Format("02T15:04"), slot.Rows)
		}
		lines = append(lines, fmt.Sprintf("%s of %s, fired %d, left out %d", line, strings.Join(s.Keys, "+"), s.Fired, s.LeftOut))
	}
	return strings.Join(lines, "\n")
}

// steps are those of a rule, with what becomes of steps that have passed.
func stepped(steps, overdue string) string {
	return `
rules:
  - {name: o, table: shop.orders, key: id, since: placed_at, done: shipped_at, where: channel <> 'test', overdue: ` + overdue + `, steps: [` + steps + `]}`
}

const twoSteps = `{after: 1d, event: soon}, {after: 3d, event: late}`

func TestAPlanSaysForWhichRowsEachStepWillFireInWhichSlot(t *testing.T) {
	t.Parallel()
	for overdue, want := range map[string]string{
		"last":     "soon 05T11:00:1 05T12:15:1 of 2+1, fired 0, left out 2\nlate 04T12:15:1 06T11:00:1 07T11:00:1 07T12:15:1 of 4+3+2+1, fired 0, left out 0",
		"fire":     "soon 04T12:15:2 05T11:00:1 05T12:15:1 of 3+4+2+1, fired 0, left out 0\nlate 04T12:15:1 06T11:00:1 07T11:00:1 07T12:15:1 of 4+3+2+1, fired 0, left out 0",
		"skip":     "soon 05T11:00:1 05T12:15:1 of 2+1, fired 0, left out 2\nlate 06T11:00:1 07T11:00:1 07T12:15:1 of 3+2+1, fired 0, left out 1",
		"spread 1": "soon 04T12:15:2 05T11:00:1 05T12:15:1 of 3+4+2+1, fired 0, left out 0\nlate 04T12:15:1 06T11:00:1 07T11:00:1 07T12:15:1 of 4+3+2+1, fired 0, left out 0",
	} {
		if overdue == "last" { // of row 3, the first step is the latest that has passed
			want = strings.Replace(want, "soon 05", "soon 04T12:15:1 05", 1)
			want = strings.Replace(want, "of 2+1, fired 0, left out 2", "of 3+2+1, fired 0, left out 1", 1)
		}
		t.Run(overdue, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`insert into shop.orders (id, placed_at, shipped_at, channel) values
				(1, ` + at("04 12:05") + `, null, 'web'), (2, ` + at("04 11:00") + `, null, 'web'), (3, ` + at("03 11:00") + `, null, 'web'),
				(4, ` + at("01 11:00") + `, null, 'web'), (5, ` + at("04 11:00") + `, ` + at("04 11:30") + `, 'web'), (6, ` + at("04 11:00") + `, null, 'test')`)
			if got := forecast(s.plan(stepped(twoSteps, overdue))); got != want {
				t.Errorf("\n%s\nwant\n%s", got, want)
			}
			// What waits after the apply fires so, too.
			s.apply(stepped(twoSteps, overdue))
			s.now = noon.Add(time.Second)
			if got := forecast(s.plan(stepped(twoSteps, overdue))); got != want {
				t.Errorf("after the apply\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Another overdue lets apply look at no row.
func TestAForecastLeavesTheRowsThatAnApplyDoesNotLookAt(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`insert into shop.orders (id, placed_at) select n, ` + at("01 11:00") + ` from generate_series(1, 3) n`)
	const step = `{after: 1d, event: soon}`
	s.apply(stepped(step, "skip"))
	s.exec(`insert into shop.orders (id, placed_at) values (4, ` + at("04 11:00") + `)`)
	plan := s.plan(stepped(step, "fire"))
	if got, want := forecast(plan), "soon 05T11:00:1 of 4, fired 0, left out 3"; got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	waiting := s.waiting()
	if p := s.apply(stepped(step, "fire")).Rules[0]; p.Begin+p.Retimed != 0 || s.waiting() != waiting {
		t.Errorf("applied %+v: %s wait, and %s before", p, s.waiting(), waiting)
	}
}

// The check of a row that waits remembers what was left out. Nothing remembers it of a row without a later step.
func TestWhatSkipHasLeftOutOfARowThatWaitsNeverFires(t *testing.T) {
	t.Parallel()
	const a, y, z = `{after: 1d, event: a}`, `, {after: 10d, event: y}`, `, {after: 20d, event: z}`
	for name, test := range map[string]struct{ first, then, want string }{
		"it waits": {
			a + y, a + y + z,
			"a of , fired 0, left out 1\ny 11T11:00:1 of 1, fired 0, left out 0\nz 21T11:00:1 of 1, fired 0, left out 0",
		},
		"no step is left": {a, a + y, "a 04T12:15:1 of 1, fired 0, left out 0\ny 11T11:00:1 of 1, fired 0, left out 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`insert into shop.orders (id, placed_at) values (1, ` + at("01 11:00") + `)`)
			const want = "of a row that waits for a later step, they never fire for that start of the clock. " +
				"About any other row, overdue decides again when an apply looks at it"
			if got := strings.Join(s.plan(stepped(test.first, "skip")).Rules[0].Warnings, "\n"); !strings.HasSuffix(got, want) {
				t.Errorf("the plan warns: %s", got)
			}
			s.apply(stepped(test.first, "skip"))
			if got := forecast(s.plan(stepped(test.then, "last"))); got != test.want {
				t.Errorf("\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestAForecastCountsTheNextTimeOfAStepThatRepeats(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`insert into shop.orders (id, placed_at) values (1, ` + at("04 11:00") + `), (2, ` + at("01 11:00") + `)`)
	plan := s.plan(stepped(`{after: 1d, every: 1d, event: nag}, {after: 30d, event: end}`, "skip"))
	if got, want := forecast(plan), "nag 05T11:00:2 of 1+2, fired 0, left out 0\nend 31T11:00:1 03T11:00:1 of 2+1, fired 0, left out 0"; got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestAForecastKnowsHowOftenTheDataLetAStepFire(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`alter table shop.orders add nag int, add most int;
		insert into shop.orders (id, placed_at, nag, most) values (1, ` + at("01 11:00") + `, 2, null), (2, ` + at("01 11:00") + `, 3, 2), (3, ` + at("01 11:00") + `, 5, 1),
			(4, ` + at("01 11:00") + `, null, 9), (5, ` + at("01 11:00") + `, 2, 0)`)
	file := stepped(`{after: 1d, every: {interval: make_interval(days => nag)}, times: {count: most}, event: nag}`, "skip")
	// Their second times come on day 4, which has passed, and on day 5. Those of the others do not come.
	if got, want := forecast(s.plan(file)), "nag 05T11:00:1 06T11:00:1 of 2+1, fired 0, left out 2"; got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if plan := s.plan(file); plan.Rules[0].Forecast[0].When != "after 1d, every make_interval(days => nag), most times" {
		t.Errorf("%+v", plan.Rules[0].Forecast)
	}
}

// A step does not fire for a row whose expected thing comes before it.
func TestAForecastKnowsWhenARowWillBeDone(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`insert into shop.orders (id, placed_at, shipped_at) values (1, ` + at("04 11:00") + `, ` + at("06 00:00") + `), (2, ` + at("04 11:00") + `, 'infinity')`)
	if got, want := forecast(s.plan(stepped(twoSteps, "last"))), "soon 05T11:00:2 of 1+2, fired 0, left out 0\nlate 07T11:00:1 of 2, fired 0, left out 0"; got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestAForecastNamesTheFirstKeysAndTheZone(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`insert into shop.orders (id, placed_at) select g, ` + at("04 11:00") + ` from generate_series(1, 250) g`)
	file := "calendars: {tokyo: {timezone: Asia/Tokyo}}" + stepped(`{after: 1d, event: soon}, {after: 3 business days, calendar: tokyo, sql: "select\n $key"}`, "last")
	f := s.plan(file).Rules[0].Forecast
	if got, want := strings.Join(f[0].Keys, " "), "1 2 3 4 5"; got != want || f[0].Rows != 250 {
		t.Errorf("keys %s of %d rows, want %s", got, f[0].Rows, want)
	}
	if f[0].Slots[0].Timezone != "" || f[1].Slots[0].Timezone != "Asia/Tokyo" || f[1].Does != "sql select $key" || f[1].When != "after 3 business days" {
		t.Errorf("%+v", f)
	}
}
