package schedule_test

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// kinds are crontabs, and the same in other words: whether they fire at a minute of the clocks in
// their zone, which is given as a wall time in UTC.
var kinds = []struct {
	crontab string
	fires   func(wall time.Time) bool
}{
	{"0 * * * *", func(t time.Time) bool { return t.Minute() == 0 }},
	{"*/30 * * * *", func(t time.Time) bool { return t.Minute()%30 == 0 }},
	{"7,22 * * * *", func(t time.Time) bool { return t.Minute() == 7 || t.Minute() == 22 }},
	{"41 */2 * * *", func(t time.Time) bool { return t.Minute() == 41 && t.Hour()%2 == 0 }},
	{"50-55 13-23 1 3 *", func(t time.Time) bool {
		return t.Minute() >= 50 && t.Minute() <= 55 && t.Hour() >= 13 && t.Day() == 1 && t.Month() == time.March
	}},
	{"5 12 * * sat,fri", func(t time.Time) bool {
		return t.Minute() == 5 && t.Hour() == 12 && (t.Weekday() == time.Friday || t.Weekday() == time.Saturday)
	}},
	{"@hourly", func(t time.Time) bool { return t.Minute() == 0 }},
}

// zones are time zones, and their distance from UTC on the day of the test.
var zones = []struct {
	name  string
	ahead time.Duration
}{
	{"", 0},
	{"Europe/Berlin", time.Hour},
	{"Asia/Kathmandu", 5*time.Hour + 45*time.Minute},
	{"America/St_Johns", -3*time.Hour - 30*time.Minute},
}

// odd is a schedule of a number, and its instants up to an end as the oracle sees them.
func odd(i int) (schedule.Spec, func(end time.Time) []time.Time) {
	kind, zone := kinds[i%len(kinds)], zones[i/7%len(zones)]
	spec := schedule.Spec{
		ID: fmt.Sprintf("schedule-%d", i), Crontab: kind.crontab, Timezone: zone.name,
		Misfire: []schedule.Misfire{schedule.All, schedule.Latest, schedule.Skip}[i/28%3],
	}
	if i/84%2 == 1 {
		spec.Deadline = 35 * time.Minute
		spec.DeadlineFrom = []schedule.DeadlineFrom{"", schedule.FromSlot, schedule.FromInstant}[i/168%3]
	}
	first, interval, fires := noon.Add(time.Minute), time.Minute, func(at time.Time) bool { return kind.fires(at.Add(zone.ahead)) }
	if i%10 == 9 { // one of ten in a form of its own
		interval = time.Duration(20+i%50) * time.Minute
		spec.Crontab, spec.Timezone, spec.Anchor = "@every "+interval.String(), "", noon.Add(-time.Duration(i)*time.Second)
		zone.ahead = 0
		first, fires = spec.Anchor, func(at time.Time) bool { return at.After(noon) }
	}
	instants := func(end time.Time) (list []time.Time) {
		for at := first; !at.After(end); at = at.Add(interval) {
			if fires(at) {
				list = append(list, at)
			}
		}
		return list
	}
	within := bounded(&spec, i, zone.ahead, instants)
	return spec, within
}

// bounded gives some schedules a start, an end, a maximum of runs and exclusions, and takes from
// their instants what these do.
func bounded(spec *schedule.Spec, i int, ahead time.Duration, instants func(end time.Time) []time.Time) func(end time.Time) []time.Time {
	start, end := noon, slot(lastSlot)
	if i%11 == 3 {
		start = noon.Add(50 * time.Minute)
		spec.Start = start
	}
	if i%17 == 7 {
		spec.Exclude = []string{"* 13 * * *", "2030-02-28", "tue"} // the day of the test is a Friday
	}
	if i%19 == 2 {
		spec.MaxRuns = 3
	}
	within := func(to time.Time) []time.Time {
		return slices.DeleteFunc(instants(to), func(at time.Time) bool {
			return at.Before(start) || !at.Before(end) && !spec.End.IsZero() || len(spec.Exclude) > 0 && at.Add(ahead).Hour() == 13
		})
	}
	if last := noon.Add(125 * time.Minute); i%13 == 5 && len(within(last)) > 1 {
		spec.End, end = last, last
	}
	return within
}

// Ten slots, of which the fourth to the sixth are missed; they are caught up on a minute after the
// seventh has begun.
const (
	lastSlot    = 10
	firstMissed = 4
	firstAfter  = 7
)

// expected are the ids that a schedule publishes, by the rules of the documentation, and how many
// it drops.
func expected(spec schedule.Spec, instants []time.Time) (ids []string, dropped int) {
	var before, missed, after []time.Time
	late := 0
	for _, at := range instants {
		due := grid.Default.Ceil(at)
		from := due
		if spec.DeadlineFrom == schedule.FromInstant {
			from = at
		}
		switch {
		case due.Before(slot(firstMissed)):
			before = append(before, at)
		case !due.Before(slot(firstAfter)):
			after = append(after, at)
		case spec.Deadline == 0 || slot(firstAfter).Add(time.Minute).Sub(from) <= spec.Deadline:
			missed = append(missed, at)
		default:
			late++
		}
	}
	keep := len(missed)
	switch spec.Misfire {
	case schedule.Skip:
		keep = 0
	case schedule.Latest:
		keep = min(keep, 1)
	}
	if spec.MaxRuns == 0 || len(before) < spec.MaxRuns { // else it has ended before
		dropped = late + len(missed) - keep
	}
	for _, at := range slices.Concat(before, missed[len(missed)-keep:], after) {
		if spec.MaxRuns == 0 || len(ids) < spec.MaxRuns {
			ids = append(ids, fmt.Sprintf("%s-%d", spec.ID, at.Unix()))
		}
	}
	return ids, dropped
}

func TestThroughTenSlotsWithAnOutageExactlyTheIDsOfTheOracleArePublished(t *testing.T) {
	t.Parallel()
	schedules := 20_000
	if testing.Short() {
		schedules = 1_000
	}
	if os.Getenv("PRESCIENT_TEST_LONG") != "" {
		schedules = 100_000
	}
	w := setup(t)
	n, err := w.store.CreateAll(t.Context(), w.db, specs(schedules))
	if err != nil || n != int64(schedules) {
		t.Fatal(n, err)
	}
	for n := 1; n <= lastSlot; n++ {
		if n == firstAfter {
			w.catchUp(slot(n).Add(time.Minute))
		}
		if n < firstMissed || n >= firstAfter {
			at := slot(n)
			if n == firstAfter {
				at = at.Add(time.Minute)
			}
			w.clock.Set(at)
			if _, err := w.runner().Run(t.Context(), slot(n)); err != nil {
				t.Fatal(err)
			}
		}
	}

	var want, got []string
	var waiting, dropped int
	events := map[string]time.Time{} // the newest event of each schedule
	for i := range schedules {
		spec, instants := odd(i)
		ids, n := expected(spec, instants(slot(lastSlot)))
		want, dropped = append(want, ids...), dropped+n
		if spec.End.IsZero() && (spec.MaxRuns == 0 || len(ids) < spec.MaxRuns) {
			waiting++
		}
	}
	for _, e := range w.published() {
		got = append(got, e.ID)
		if e.Time.Before(events[e.Subject]) {
			t.Fatalf("%s was published out of order", e.ID)
		}
		events[e.Subject] = e.Time
	}
	sameIDs(t, want, got)
	t.Logf("%d schedules, %d events", schedules, len(got))
	if n := w.count(`select sum(dropped) from prescient.schedule_state`); n != dropped {
		t.Errorf("%d dropped, want %d", n, dropped)
	}
	if n := w.count(`select count(distinct entity_key) from prescient.future_job where next_check_at > $1`, slot(lastSlot)); n != waiting {
		t.Errorf("%d of %d schedules wait, want %d", n, schedules, waiting)
	}
	w.checkLast(events)
}

// checkLast: every schedule, also one that has ended, tells which instant it has published last.
func (w *world) checkLast(published map[string]time.Time) {
	w.t.Helper()
	for s, err := range w.store.List(w.t.Context(), w.db, schedule.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if !s.Last.Equal(published[s.ID]) {
			w.t.Fatalf("%+v: the last one was %s", s, published[s.ID])
		}
	}
}

func specs(n int) iter.Seq[schedule.Spec] {
	return func(yield func(schedule.Spec) bool) {
		for i := range n {
			if spec, _ := odd(i); !yield(spec) {
				return
			}
		}
	}
}
