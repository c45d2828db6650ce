package schedule_test

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

// kinds are crontabs, and the same in other words: whether they fire at a minute of the clocks in their zone, which is
// given as a wall time in UTC.
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
	}
	if i%10 == 9 { // one of ten in a form of its own
		interval := time.Duration(20+i%50) * time.Minute
		spec.Crontab, spec.Timezone, spec.Anchor = "@every "+interval.String(), "", noon.Add(-time.Duration(i)*time.Second)
		return spec, func(end time.Time) (list []time.Time) {
			for at := spec.Anchor; !at.After(end); at = at.Add(interval) {
				if at.After(noon) {
					list = append(list, at)
				}
			}
			return list
		}
	}
	return spec, func(end time.Time) (list []time.Time) {
		for at := noon.Add(time.Minute); !at.After(end); at = at.Add(time.Minute) {
			if kind.fires(at.Add(zone.ahead)) {
				list = append(list, at)
			}
		}
		return list
	}
}

// Ten slots, of which the fourth to the sixth are missed; they are caught up on a minute after the seventh has begun.
const (
	lastSlot    = 10
	firstMissed = 4
	firstAfter  = 7
)

// expected are the ids that a schedule publishes, by the rules of the documentation.
func expected(spec schedule.Spec, instants []time.Time) []string {
	var ids []string
	add := func(at time.Time) { ids = append(ids, fmt.Sprintf("%s-%d", spec.ID, at.Unix())) }
	var missed []time.Time
	for _, at := range instants {
		due := grid.Default.Ceil(at)
		switch {
		case due.Before(slot(firstMissed)) || !due.Before(slot(firstAfter)):
			add(at)
		case spec.Deadline == 0 || slot(firstAfter).Add(time.Minute).Sub(due) <= spec.Deadline:
			missed = append(missed, at)
		}
	}
	switch {
	case spec.Misfire == schedule.Skip:
	case spec.Misfire == schedule.Latest && len(missed) > 0:
		add(missed[len(missed)-1])
	case spec.Misfire == schedule.All:
		for _, at := range missed {
			add(at)
		}
	}
	return ids
}

func TestThroughTenSlotsWithAnOutageExactlyTheIDsOfTheOracleArePublished(t *testing.T) {
	t.Parallel()
	schedules := 100_000
	if raceDetector {
		schedules = 40_000 // each takes several times as long
	}
	if testing.Short() {
		schedules = 5_000
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
	events := map[string]time.Time{} // the newest event of each schedule
	for i := range schedules {
		spec, instants := odd(i)
		want = append(want, expected(spec, instants(slot(lastSlot)))...)
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
	w.checkCounts(schedules, len(got))
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

// checkCounts: every instant was published or counted as dropped, and every schedule waits.
func (w *world) checkCounts(schedules, published int) {
	w.t.Helper()
	instants := 0
	for i := range schedules {
		_, list := odd(i)
		instants += len(list(slot(lastSlot)))
	}
	if dropped := w.count(`select sum(dropped) from prescient.schedule_drop`); published+dropped != instants {
		w.t.Errorf("%d published and %d dropped of %d instants", published, dropped, instants)
	}
	if n := w.count(`select count(distinct entity_key) from prescient.future_job where next_check_at > $1`, slot(lastSlot)); n != schedules {
		w.t.Errorf("%d of %d schedules wait", n, schedules)
	}
}
