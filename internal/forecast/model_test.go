package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

var midnight = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return midnight.Add(d) }

// runsOf returns n slots that one runner has run. Their run times follow from rows of two jobs, by
// atEight, with some noise.
func runsOf(n int, noise float64) past {
	random := rand.New(rand.NewPCG(5, 6))
	var list []*ran
	for i := range n {
		r := &ran{
			slot: at(time.Duration(i) * 15 * time.Minute), kind: slots.KindRun, delay: 2 * time.Second, runners: 1, workers: 64,
			rows: map[string]float64{"fast": float64(random.IntN(5000)), "slow": float64(random.IntN(2000))},
		}
		r.spent = map[string]time.Duration{"slow": time.Duration(r.rows["slow"] * float64(100*time.Millisecond))}
		r.took = time.Duration(atEight(r) * math.Exp(noise*random.NormFloat64()) * float64(time.Second))
		list = append(list, r)
	}
	return newPast(list, grid.Default, time.Time{})
}

// Checks of slow run 8 at once, though there are 64 workers. Rows cost the server three times the
// assumed time.
func atEight(r *ran) float64 {
	return 0.05 + 30e-6*r.rows["fast"] + r.rows["slow"]*(30e-6+0.1/8)
}

func TestRunTimesAreLearnedFromFewSlots(t *testing.T) {
	t.Parallel()
	for n, limit := range map[int]float64{3: 0.5, 10: 0.15, 100: 0.10, 1000: 0.10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := learn(runsOf(n, 0.1))
			if c.learned != n {
				t.Errorf("it has learned from %d slots", c.learned)
			}
			var off []float64
			for _, r := range runsOf(500, 0).list[250:] {
				off = append(off, math.Abs(c.took(r.rows, c.capacity)/atEight(r)-1))
			}
			slices.Sort(off)
			t.Logf("median error %.1f %%", 100*off[125])
			if off[125] > limit {
				t.Errorf("the median error after %d slots is %.0f %%", n, 100*off[125])
			}
		})
	}
}

func TestAnOutlierChangesTheModelLittle(t *testing.T) {
	t.Parallel()
	p := runsOf(50, 0.05)
	calm := learn(p).took(map[string]float64{"slow": 1000}, capacity{1, 64})
	p.list[40].took *= 20 // a lock was held
	if got := learn(p).took(map[string]float64{"slow": 1000}, capacity{1, 64}); math.Abs(got/calm-1) > 0.1 {
		t.Errorf("it takes %.2f s after that, and took %.2f s before", got, calm)
	}
}

func TestMoreRunnersHelpIfChecksWaitAndNotIfTheServerIsTheLimit(t *testing.T) {
	t.Parallel()
	c := learn(runsOf(200, 0.02))
	for job, want := range map[string]float64{"slow": 4, "fast": 1} {
		rows := map[string]float64{job: 100_000}
		got := c.took(rows, capacity{1, 64}) / c.took(rows, capacity{4, 64})
		if math.Abs(got/want-1) > 0.1 {
			t.Errorf("with 4 runners %s is %.1f times as fast, want %.1f", job, got, want)
		}
	}
	if c.delay != 2*time.Second || c.capacity != (capacity{1, 64}) {
		t.Errorf("slots are opened after %s, by %v", c.delay, c.capacity)
	}
}

func TestTheNumberOfRunnersIsThatOfMostRows(t *testing.T) {
	t.Parallel()
	// 14 days: a slot at nine has nearly all rows of a day. The others are so small that one runner
	// finishes them at once.
	days := func(atNine func(ago int) int) past {
		var list []*ran
		for i := range 14 * 96 {
			slot := at(time.Duration(i) * 15 * time.Minute)
			r := &ran{slot: slot, kind: slots.KindRun, runners: 1, workers: 64, rows: map[string]float64{"a": 5}}
			if i%96 == 36 {
				r.runners, r.rows["a"] = atNine(13-i/96), 100_000
				r.workers = 64 * r.runners
			}
			list = append(list, r)
		}
		return newPast(list, grid.Default, time.Time{})
	}
	for name, test := range map[string]struct {
		atNine func(ago int) int
		want   float64
	}{
		"four for many rows, and one for few": {func(int) int { return 4 }, 4},
		"ten once, to help":                   {func(ago int) int { return max(1, 10*int(one(ago == 0))) }, 1},
		"more since three days":               {func(ago int) int { return 1 + int(one(ago < 3)) }, 2},
		"fewer since three days":              {func(ago int) int { return 2 - int(one(ago < 3)) }, 1},
	} {
		if c := learn(days(test.atNine)); c.capacity != (capacity{test.want, 64}) {
			t.Errorf("%s: %v", name, c.capacity)
		}
	}
	once := runsOf(96, 0.1) // one of them is larger than all others together
	once.list[50].rows["fast"], once.list[50].runners, once.list[50].workers = 1e7, 10, 640
	if c := learn(once); c.capacity != (capacity{1, 64}) {
		t.Errorf("once so many rows: %v", c.capacity)
	}
}

func TestWhatIfIsBounded(t *testing.T) {
	t.Parallel()
	for _, w := range []WhatIf{{Runners: -1}, {Workers: -1}, {Runners: math.MaxInt}, {Workers: math.MaxInt}} {
		if _, err := Compute(t.Context(), Config{DB: new(sqlx.DB), WhatIf: w}); err == nil || !strings.Contains(err.Error(), "want a whole number up to 1000000") {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if err := (WhatIf{Runners: mostAtOnce, Workers: mostAtOnce}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAssumptionsCountWhileNothingIsKnown(t *testing.T) {
	t.Parallel()
	c := learn(past{})
	if got := c.took(map[string]float64{"new": 100_000}, c.capacity); got < 0.9 || got > 1.2 {
		t.Errorf("100,000 rows of a new job take %.2f s", got)
	}
}

func TestAJobWithFewRowsIsDoneEarly(t *testing.T) {
	t.Parallel()
	c := cost{slot: 1, check: map[string]float64{}, capacity: capacity{1, 1}, factor: map[string]float64{"few": 1e5, "many": 1e5}} // a second a row
	rows := map[string]float64{"few": 2, "many": 10}
	if few, many := c.done(rows, "few", c.capacity), c.done(rows, "many", c.capacity); math.Abs(few-5) > 1e-6 || math.Abs(many-13) > 1e-6 {
		t.Errorf("few is done after %g s, many after %g s; want 5 and 13", few, many)
	}
}

// a has few rows beside b. So another measure helps its SLA than helps the slot, though both have
// the same limit.
func TestTheAdviceDependsOnTheCondition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runners    float64
		delay, sla time.Duration
		condition  Condition
		want       string
	}{
		"an SLA as long as a slot":          {1, 0, 15 * time.Minute, SLA, "3 runners instead of 1: it takes 10m"},
		"a slot":                            {1, 0, time.Hour, TooLong, "runners alone do not help: with 64 it takes 23m49s"},
		"a slot that 100 runners work on":   {100, 0, time.Hour, TooLong, "runners alone do not help: with 100 it takes 15m18s"},
		"an SLA that is over before it all": {1, 20 * time.Second, 10 * time.Second, SLA, "begin runs at their slots: see what starts them, such as the minutes in the crontab; nothing else helps"},
	} {
		c := cost{factor: map[string]float64{}, check: map[string]float64{"a": 0.1, "b": 0.1}, capacity: capacity{test.runners, 1}, delay: test.delay}
		s := Slot{Slot: at(0), Jobs: []Job{{JobExec: "a", Expected: 9000}, {JobExec: "b", Expected: 900_000}}}
		s.time(c, c.capacity)
		j := judge{forecast: &Forecast{Grid: grid.Default}, cost: c, capacity: c.capacity, slas: map[string]time.Duration{"a": test.sla}}
		got := ""
		for _, v := range j.violations(s) {
			if v.finding.Condition == test.condition {
				got = v.finding.Help[0]
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTheVisitsOfARowFollowFromItsTimeline(t *testing.T) {
	t.Parallel()
	entry := func(what string, slot time.Duration, more string) string {
		return fmt.Sprintf(`["%s",%d,"runner"%s]`, what, at(slot).Unix(), more)
	}
	change := func(what string, slot, when time.Duration) string {
		return fmt.Sprintf(`{"what":"%s","at":%d,"slot":%d,"by":"me"}`, what, at(when).UnixMilli(), at(slot).Unix())
	}
	hour := time.Hour
	for name, test := range map[string]struct {
		row  rowHistory
		want []stay
	}{
		"a check ends it": {
			rowHistory{enqueuedAt: at(0), firstSlot: at(2 * hour), slot: at(2 * hour), finishedAt: at(2*hour + 1)},
			[]stay{{slot: at(2 * hour), arrived: at(0)}},
		},
		"it is cancelled": {
			rowHistory{enqueuedAt: at(0), firstSlot: at(2 * hour), slot: at(2 * hour), finishedAt: at(hour), removed: true, exact: true},
			[]stay{{slot: at(2 * hour), arrived: at(0), left: at(hour), exact: true}},
		},
		"checks, and one more to come": {
			rowHistory{
				enqueuedAt: at(0), firstSlot: at(hour), slot: at(4 * hour),
				journal: entry("next", hour, ",1000,5") + "\n" + entry("retry", 3*hour, `,2000,5,"no"`),
			},
			[]stay{{slot: at(hour), arrived: at(0)}, {slot: at(3 * hour), arrived: at(hour + time.Second), exact: true}},
		},
		"it is moved, pushed back and deferred": {
			rowHistory{
				enqueuedAt: at(0), firstSlot: at(5 * hour), slot: at(8 * hour), finishedAt: at(8 * hour),
				journal: change("rescheduled", 5*hour, hour) + "\n" + change("pushed_back", 6*hour, 6*hour+time.Minute) + "\n" +
					entry("deferred", 6*hour+15*time.Minute, fmt.Sprintf(",null,null,null,%d", at(7*hour).UnixMilli())),
			},
			[]stay{
				{slot: at(5 * hour), arrived: at(0), left: at(hour)},
				{slot: at(6 * hour), arrived: at(hour), left: at(6*hour + time.Minute), exact: true},
				{slot: at(6*hour + 15*time.Minute), arrived: at(6*hour + time.Minute), left: at(7 * hour), exact: true},
				{slot: at(8 * hour), arrived: at(7 * hour), exact: true},
			},
		},
		"the beginning of its journal is cut off": {
			rowHistory{
				enqueuedAt: at(0), firstSlot: at(hour), slot: at(30 * hour),
				journal: entry("next", 20*hour, ",0,5") + "\n" + entry("next", 21*hour, ",0,5"),
			},
			[]stay{{slot: at(21 * hour), arrived: at(20 * hour), exact: true}},
		},
		"it was put back": {
			rowHistory{
				enqueuedAt: at(0), firstSlot: at(hour), slot: at(4 * hour), finishedAt: at(4 * hour),
				journal: change("retried", hour, 3*hour),
			},
			[]stay{{slot: at(4 * hour), arrived: at(3 * hour), exact: true}},
		},
		"it has no journal": {
			rowHistory{enqueuedAt: at(0), firstSlot: at(hour), slot: at(4 * hour), finishedAt: at(4 * hour)}, nil,
		},
	} {
		if diff := cmp.Diff(test.want, test.row.stays(), cmp.AllowUnexported(stay{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDaysThatPredictWellCountMore(t *testing.T) {
	t.Parallel()
	var list []*ran
	for days := range 21 { // nothing on Saturdays and Sundays, and a Tuesday comes next
		rows := 1000.0
		if days%7 >= 5 {
			rows = 0
		}
		list = append(list, &ran{slot: at(time.Duration(days-21)*day + 9*time.Hour), rows: map[string]float64{"job": rows}})
	}
	p := newPast(list, grid.Default, time.Time{})
	h := p.seasonalities()["job"]
	for days, want := range map[int]float64{0: 1000, 4: 1000, 5: 0, 6: 0} {
		slot := at(time.Duration(days)*day + 9*time.Hour)
		if got := p.usual("job", slot, h); math.Abs(got-want) > 150 {
			t.Errorf("on day %d %.0f rows are usual, want %.0f", days, got, want)
		}
	}
}

func TestOneBurstIsNoHabit(t *testing.T) {
	t.Parallel()
	for _, days := range []int{0, 1, 2, 7} {
		var list []*ran
		for n := range 96 + days*96 {
			rows := 10.0
			if n == 50 {
				rows = 25_000 // within the last day
			}
			list = append(list, &ran{slot: at(-time.Duration(n+1) * 15 * time.Minute), rows: map[string]float64{"job": rows}})
		}
		slices.Reverse(list)
		p := newPast(list, grid.Default, time.Time{})
		for n := range 96 {
			slot := at(time.Duration(n) * 15 * time.Minute)
			if got := p.usual("job", slot, p.seasonalities()["job"]); got < 5 || got > 75 {
				t.Errorf("after %d more days %.0f rows are usual in slot %s, want about 10", days, got, slot)
			}
		}
		if short := p.short(at(0)); short != (days == 0) {
			t.Errorf("after %d more days the past is short: %v", days, short)
		}
	}
}

func TestTheUsualNumberSurvivesAChangeOfTheWidth(t *testing.T) {
	t.Parallel()
	for _, days := range []int{3, 0} {
		var list []*ran // 90 rows in each quarter of an hour
		for n := range 4 + days*96 {
			list = append(list, &ran{slot: at(-time.Duration(n) * 15 * time.Minute), rows: map[string]float64{"job": 90}})
		}
		slices.Reverse(list)
		for width, want := range map[time.Duration]float64{5 * time.Minute: 30, 15 * time.Minute: 90, 40 * time.Minute: 240, time.Hour: 360} {
			g, err := grid.New(width)
			if err != nil {
				t.Fatal(err)
			}
			p := newPast(list, g, at(time.Second))
			for slot := range g.Between(at(2*time.Hour), at(6*time.Hour)) {
				if got := p.usual("job", slot, p.seasonalities()["job"]); math.Abs(got-want) > want/2 || days == 0 && math.Abs(got-want) > 1 {
					t.Errorf("after %d days, width %s: %.0f rows are usual in slot %s, want %.0f", days, width, got, slot, want)
				}
			}
		}
	}
}

func TestRowsAreSpreadOverNarrowerSlotsAndMergedIntoWiderOnes(t *testing.T) {
	t.Parallel()
	slot := func(at time.Time, rows int64) Slot {
		return Slot{Slot: at, Jobs: []Job{{JobExec: "job", Waiting: rows, Expected: rows}}}
	}
	quarters := []Slot{slot(at(15*time.Minute), 300), slot(at(30*time.Minute), 600)}
	width := func(d time.Duration) grid.Grid {
		g, err := grid.New(d)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	rows := func(list []Slot) map[time.Time]int64 {
		got := map[time.Time]int64{}
		for _, s := range list {
			for _, j := range s.Jobs {
				got[s.Slot] += j.Expected
			}
		}
		return got
	}
	for name, test := range map[string]struct {
		width time.Duration
		exact float64
		want  map[time.Time]int64
	}{
		"narrower, any instant": {5 * time.Minute, 0, map[time.Time]int64{
			at(5 * time.Minute): 100, at(10 * time.Minute): 100, at(15 * time.Minute): 100,
			at(20 * time.Minute): 200, at(25 * time.Minute): 200, at(30 * time.Minute): 200,
		}},
		"narrower, at the slots": {5 * time.Minute, 1, map[time.Time]int64{at(15 * time.Minute): 300, at(30 * time.Minute): 600}},
		"wider":                  {time.Hour, 0, map[time.Time]int64{at(time.Hour): 900}},
		"across":                 {10 * time.Minute, 0, map[time.Time]int64{at(10 * time.Minute): 200, at(20 * time.Minute): 300, at(30 * time.Minute): 400}},
	} {
		got := rows(regrid(quarters, grid.Default, width(test.width), func(string) float64 { return test.exact }))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
