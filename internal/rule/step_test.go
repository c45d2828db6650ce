package rule_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
)

// stepOf reads a step with the calendar c of a rule in a zone, from its fields.
func stepOf(t testing.TB, timezone, fields string, calendar rule.Calendar) (rule.Step, *rule.Timing) {
	t.Helper()
	file, err := rule.Parse(strings.NewReader(`{"calendars": {"c": {}}, "rules": [{"name": "r", "table": "s.t", "key": "k", "since": "a", "done": "b",
		"timezone": "` + timezone + `", "steps": [{event: e, ` + fields + `}]}]}`))
	if err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	timing, err := rule.NewTiming(file.Rules[0], map[string]rule.Calendar{"c": calendar})
	if err != nil {
		t.Fatal(err)
	}
	return file.Rules[0].Steps[0], timing
}

func TestAStepFiresAtItsTimes(t *testing.T) {
	t.Parallel()
	office := rule.Calendar{Timezone: "Europe/Berlin", Country: "DE", Region: "BE", Hours: "mon-fri 09:00-17:00"}
	for _, test := range []struct {
		fields, since string
		want          []string // the first times, in Europe/Berlin
		end           bool     // there are no more
	}{
		{"before: 45d", "2026-05-01 00:00", []string{"2026-03-17 00:00"}, true},   // over a change of the clocks
		{"before: 1080h", "2026-05-01 00:00", []string{"2026-03-16 23:00"}, true}, // time that passes
		{"before: 1 month", "2026-03-31 10:00", []string{"2026-02-28 10:00"}, true},
		{"before: 1 year", "2028-02-29 10:00", []string{"2027-02-28 10:00"}, true},
		{"after: 2w", "2026-03-20 10:00", []string{"2026-04-03 10:00"}, true},
		{"after: 2 weeks", "2026-03-15 02:30", []string{"2026-03-29 03:00"}, true}, // the clocks skip it
		{"after: 1w", "2026-10-18 02:30", []string{"2026-10-25 02:30"}, true},
		{"after: 1 month", "2026-01-31 10:00", []string{"2026-02-28 10:00"}, true},
		{"after: 13 months", "2027-01-31 10:00", []string{"2028-02-29 10:00"}, true},
		{"after: 3 days", "2026-03-27 10:00", []string{"2026-03-30 10:00"}, true},
		{"after: 50% of 5h", "2026-03-02 10:00", []string{"2026-03-02 12:30"}, true},
		{"after: 200 % of 2d at 09:00", "2026-03-02 10:00", []string{"2026-03-07 09:00"}, true},
		{"after: 75% of 8 business hours, calendar: c", "2026-03-02 10:00", []string{"2026-03-02 16:00"}, true},
		{"before: 50% of 4 months", "2026-06-05 00:00", []string{"2026-04-05 00:00"}, true},
		{"after: 3d at 09:00", "2026-03-02 10:00", []string{"2026-03-06 09:00"}, true},
		{"after: 3d at 09:00", "2026-03-02 09:00", []string{"2026-03-05 09:00"}, true},
		{"after: 0s at 09:00", "2026-03-02 08:59", []string{"2026-03-02 09:00"}, true},
		{"after: 1h at 02:30", "2026-03-29 01:00", []string{"2026-03-29 03:00"}, true},
		{"before: 1 month at 09:00", "2026-06-05 00:00", []string{"2026-05-05 09:00"}, true},
		{"after: 1d at 09:00, calendar: c", "2026-11-27 08:00", []string{"2026-11-30 09:00"}, true}, // a Saturday
		{"after: 1 business day at 12:00, calendar: c", "2026-11-27 13:00", []string{"2026-12-01 12:00"}, true},
		{"before: 3 business days, calendar: c", "2026-12-01 10:30", []string{"2026-11-26 10:30"}, true},
		{"before: 1 business day, calendar: c", "2026-11-30 09:00", []string{"2026-11-27 09:00"}, true},
		{"before: 1 business day, calendar: c", "2026-11-30 00:00", []string{"2026-11-26 17:00"}, true},
		{"before: 1 business day, calendar: c", "2026-11-27 20:00", []string{"2026-11-26 17:00"}, true},
		{"before: 4 business hours, calendar: c", "2026-11-30 10:00", []string{"2026-11-27 14:00"}, true},
		{"before: 4 business hours, calendar: c", "2026-11-28 10:00", []string{"2026-11-27 13:00"}, true},
		{"before: 1 business day, calendar: c", "2026-12-28 10:00", []string{"2026-12-24 10:00"}, true},
		{"after: 5d, every: 2d, times: 3", "2026-03-01 10:00", []string{"2026-03-06 10:00", "2026-03-08 10:00", "2026-03-10 10:00"}, true},
		{"after: 5d, every: 2d", "2026-03-25 10:00", []string{"2026-03-30 10:00", "2026-04-01 10:00"}, false},
		{"after: 1d at 09:00, every: 1d", "2026-03-27 08:00", []string{"2026-03-28 09:00", "2026-03-29 09:00", "2026-03-30 09:00"}, false},
		{"after: 0s, every: 1 month", "2026-01-31 10:00", []string{"2026-01-31 10:00", "2026-02-28 10:00", "2026-03-31 10:00"}, false},
		{"after: 1 month, every: 1 month", "2026-01-31 10:00", []string{"2026-02-28 10:00", "2026-03-31 10:00", "2026-04-30 10:00"}, false},
		{"before: 2 months, every: 1 month, times: 3", "2026-05-31 10:00", []string{"2026-03-31 10:00", "2026-04-30 10:00", "2026-05-31 10:00"}, true},
		{"before: 45d, every: 2w", "2026-04-01 00:00", []string{"2026-02-15 00:00", "2026-03-01 00:00", "2026-03-15 00:00", "2026-03-29 00:00"}, false},
		{"after: 3d, every: 1 business day, calendar: c", "2026-11-25 12:00", []string{"2026-11-28 12:00", "2026-12-01 09:00", "2026-12-02 09:00"}, false},
		{"after: 1h at 18:00, every: 1 business day, calendar: c", "2026-11-24 16:30", []string{"2026-11-24 18:00", "2026-11-25 18:00", "2026-11-26 18:00"}, false},
		{"after: 3d at 10:00, every: 1 business day, calendar: c", "2026-11-24 12:00", []string{"2026-11-30 10:00", "2026-12-01 10:00"}, false},
		{"after: 1 business hour, every: 4 business hours, calendar: c", "2026-11-27 14:00", []string{"2026-11-27 15:00", "2026-11-30 11:00", "2026-11-30 15:00"}, false},
	} {
		_, timing := stepOf(t, "Europe/Berlin", test.fields, office)
		since := berlin(t, test.since)
		after := since.AddDate(-20, 0, 0)
		var got []string
		next := rule.Occurrence{}
		var err error
		for n := range len(test.want) + 1 {
			var last rule.Occurrence
			last, next, err = timing.Around(0, since, after)
			if err != nil || last.Number != n {
				t.Errorf("%s after %s, up to %s: %+v, %v, want number %d", test.fields, test.since, after, last, err, n)
			}
			if n < len(test.want) {
				got, after = append(got, next.At.In(since.Location()).Format("2006-01-02 15:04")), next.At
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) || (next.Number == 0) != test.end {
			t.Errorf("%s after %s: %v and %+v, want %v", test.fields, test.since, got, next, test.want)
		}
	}
}

// berlin reads what clocks in Berlin show.
func berlin(t testing.TB, text string) time.Time {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", text, zone)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// naive is another implementation of the time of a step, in steps of minutes. since is a whole minute.
type naive struct {
	step     rule.Step
	zone     *time.Location
	calendar *time.Location
	works    func(wall time.Time) bool // whether a minute is working time, by the clocks of the calendar
}

// show returns the minutes that clocks of a zone show at an instant, as if it were UTC.
func show(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

// first returns the first instant at which clocks show a time or a later one.
func first(wall time.Time, zone *time.Location) time.Time {
	at := wall.Add(-30 * time.Hour)
	for show(at, zone).Before(wall) {
		at = at.Add(15 * time.Minute)
	}
	for at = at.Add(-15 * time.Minute); show(at, zone).Before(wall); {
		at = at.Add(time.Minute)
	}
	return at
}

func (o naive) months(from time.Time, n int) time.Time {
	wall := show(from, o.zone)
	year, month := wall.Year(), int(wall.Month())-1+n
	for ; month < 0; month += 12 {
		year--
	}
	year, month = year+month/12, month%12
	for d := wall.Day(); ; d-- {
		if to := time.Date(year, time.Month(month+1), d, wall.Hour(), wall.Minute(), 0, 0, time.UTC); int(to.Month()) == month+1 {
			return first(to, o.zone)
		}
	}
}

// day reports whether a day has working time, and of which minutes.
func (o naive) day(today time.Time) (minutes []int) {
	for m := range 24 * 60 {
		if o.works(today.Add(time.Duration(m) * time.Minute)) {
			minutes = append(minutes, m)
		}
	}
	return minutes
}

func (o naive) at(from time.Time, d rule.Delay, sign int) time.Time {
	switch {
	case d.Days != 0 || d.Weeks != 0:
		return first(show(from, o.zone).AddDate(0, 0, sign*(d.Days+7*d.Weeks)), o.zone)
	case d.Months != 0:
		return o.months(from, sign*d.Months)
	case d.BusinessTime != 0 && sign > 0:
		at := from
		for left := d.BusinessTime; left > 0; at = at.Add(time.Minute) {
			if o.works(show(at, o.calendar)) {
				left -= time.Minute
			}
		}
		return at
	case d.BusinessTime != 0:
		at := from
		for left := d.BusinessTime; left > 0; {
			at = at.Add(-time.Minute)
			if o.works(show(at, o.calendar)) {
				left -= time.Minute
			}
		}
		return at
	case d.BusinessDays != 0:
		return o.workdays(from, sign, d.BusinessDays)
	}
	return from.Add(time.Duration(sign) * d.Duration)
}

func (o naive) workdays(from time.Time, sign, n int) time.Time {
	at := from
	for sign > 0 && !o.works(show(at, o.calendar)) {
		at = at.Add(time.Minute)
	}
	for sign < 0 && !o.works(show(at, o.calendar)) && !o.works(show(at.Add(-time.Minute), o.calendar)) {
		at = at.Add(-time.Minute)
	}
	wall := show(at, o.calendar)
	today, clock := wall.Truncate(24*time.Hour), wall.Hour()*60+wall.Minute()
	if sign < 0 && !o.works(wall) && clock == 0 { // the closing at midnight
		today, clock = today.AddDate(0, 0, -1), 24*60
	}
	for ; n > 0; n-- {
		for today = today.AddDate(0, 0, sign); len(o.day(today)) == 0; {
			today = today.AddDate(0, 0, sign)
		}
	}
	minutes := o.day(today)
	best := -1
	for _, m := range minutes {
		if sign > 0 && m >= clock && best < 0 {
			best = m
		}
		if sign < 0 && (m <= clock || m+1 <= clock) {
			best = min(m+1, clock)
		}
	}
	switch {
	case best < 0 && sign > 0:
		best = minutes[len(minutes)-1] + 1
	case best < 0:
		best = minutes[0]
	}
	return first(today.Add(time.Duration(best)*time.Minute), o.calendar)
}

// repeated returns the nth time of a step with a time of day, by the days after that of the first time.
func (o naive) repeated(since time.Time, n int) time.Time {
	zone, every := o.zone, o.step.Every
	if o.step.Calendar != "" {
		zone = o.calendar
	}
	open := func(today time.Time) bool { return o.step.Calendar == "" || len(o.day(today)) > 0 }
	wall := show(o.occurrence(since, 1), zone)
	today := wall.Truncate(24 * time.Hour)
	for range n - 1 {
		today = today.AddDate(0, 0, 7*every.Weeks+every.Days)
		for range every.BusinessDays {
			for today = today.AddDate(0, 0, 1); !open(today); {
				today = today.AddDate(0, 0, 1)
			}
		}
	}
	if every.Months != 0 {
		month := time.Date(today.Year(), today.Month()+time.Month(every.Months*(n-1)), 1, 0, 0, 0, 0, time.UTC)
		today = month.AddDate(0, 0, min(today.Day(), month.AddDate(0, 1, -1).Day())-1)
	}
	for !open(today) {
		today = today.AddDate(0, 0, 1)
	}
	var hour, minute int
	after := o.step.After.At + o.step.Before.At
	_, _ = fmt.Sscanf(after, "%d:%d", &hour, &minute)
	return first(today.Add(time.Duration(hour*60+minute)*time.Minute), zone)
}

// occurrence returns the nth time of the step.
func (o naive) occurrence(since time.Time, n int) time.Time {
	d, sign := o.step.After, 1
	if o.step.Before != (rule.Delay{}) {
		d, sign = o.step.Before, -1
	}
	if d.At != "" && n > 1 && (d.Months == 0 || o.step.Every.Months == 0) {
		return o.repeated(since, n)
	}
	at := o.at(since, d, sign)
	every := o.step.Every
	every.Days, every.Weeks, every.Months, every.BusinessDays = every.Days*(n-1), every.Weeks*(n-1), every.Months*(n-1), every.BusinessDays*(n-1)
	every.Duration, every.BusinessTime = every.Duration*time.Duration(n-1), every.BusinessTime*time.Duration(n-1)
	switch {
	case n == 1:
	case d.Months != 0 && every.Months != 0:
		at = o.months(since, sign*d.Months+every.Months)
	default:
		at = o.at(at, every, 1)
	}
	if d.At == "" {
		return at
	}
	zone := o.zone
	if o.step.Calendar != "" {
		zone = o.calendar
	}
	var hour, minute int
	_, _ = fmt.Sscanf(d.At, "%d:%d", &hour, &minute)
	for today := show(at, zone).Truncate(24 * time.Hour); ; today = today.AddDate(0, 0, 1) {
		is := first(today.Add(time.Duration(hour*60+minute)*time.Minute), zone)
		if !is.Before(at) && (o.step.Calendar == "" || len(o.day(today)) > 0) {
			return is
		}
	}
}

// The times of random steps are those of a naive implementation, which counts minutes.
func TestTheTimesOfStepsAreThoseOfTheClock(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 11))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Asia/Kolkata", "America/St_Johns", "Australia/Sydney"}
	hours := []string{"mon-fri 09:00-17:00", "mon-sun 00:00-24:00", "mon-thu 08:00-12:00,13:00-18:00; fri 07:30-11:00", "sat 22:00-24:00; sun 00:00-06:00", "tue 10:00-11:30"}
	pick := func(list []string) string { return list[rnd.IntN(len(list))] }
	span := func() string {
		n := 1 + rnd.IntN(4)
		return pick([]string{
			fmt.Sprintf("%dh", n*7), fmt.Sprintf("%dd", n), fmt.Sprintf("%dw", n), fmt.Sprintf("%d months", n),
			fmt.Sprintf("%d business days", n), fmt.Sprintf("%d business minutes", n*97),
		})
	}
	tested := map[string]int{}
	for range 400 {
		timezone, calendar := pick(zones), rule.Calendar{Timezone: pick(zones), Hours: pick(hours), Holidays: []string{"03-30"}}
		side := pick([]string{"after", "before"})
		a, every, at := span(), "", ""
		if rnd.IntN(3) == 0 {
			at = fmt.Sprintf(" at %02d:%02d", rnd.IntN(24), rnd.IntN(60))
		}
		if rnd.IntN(2) == 0 {
			for every = span(); at != "" && (strings.HasSuffix(every, "h") || strings.HasSuffix(every, "minutes")); {
				every = span()
			}
		}
		fields := side + ": " + a + at
		if every != "" {
			fields += ", every: " + every
		}
		if strings.Contains(fields, "business") {
			fields += ", calendar: c"
		}
		step, timing := stepOf(t, timezone, fields, calendar)
		o := naive{step: step}
		o.zone, _ = time.LoadLocation(timezone)
		o.calendar, _ = time.LoadLocation(calendar.Timezone)
		o.works = func(wall time.Time) bool { return worksAt(calendar.Hours, wall) }
		since := time.Date(2026, time.March, 20+rnd.IntN(20), rnd.IntN(24), rnd.IntN(60), 0, 0, time.UTC)
		if rnd.IntN(2) == 0 {
			since = since.AddDate(0, 7, 0)
		}
		n := 1
		if every != "" {
			n += rnd.IntN(5)
		}
		want := o.occurrence(since, n)
		last, _, err := timing.Around(0, since, want)
		if err != nil || !last.At.Equal(want) || last.Number < n {
			t.Errorf("zone %s, calendar %s %s, %s: number %d after %s is %+v (%v), want %s", timezone, calendar.Timezone, calendar.Hours, fields, n, since, last, err, want)
		}
		if before, next, err := timing.Around(0, since, want.Add(-1)); err != nil || !next.At.Equal(want) || before.Number >= n {
			t.Errorf("zone %s, calendar %s, %s: before number %d are %+v and %+v (%v)", timezone, calendar.Hours, fields, n, before, next, err)
		}
		if one := o.occurrence(since, 1); one.Before(since.Add(timing.Earliest(0))) || timing.Exact(0) && !one.Equal(since.Add(timing.Earliest(0))) {
			t.Errorf("zone %s, calendar %s %s, %s: %s after %s is before the earliest, %s", timezone, calendar.Timezone, calendar.Hours, fields, one, since, timing.Earliest(0))
		}
		tested[fmt.Sprint(side, every != "", at != "", strings.Contains(fields, "business"))]++
	}
	if len(tested) != 16 {
		t.Errorf("tested %v", tested)
	}
}

// worksAt reads working hours in another way than the package.
func worksAt(hours string, wall time.Time) bool {
	if wall.Month() == time.March && wall.Day() == 30 {
		return false
	}
	names := "sunmontuewedthufrisat"
	for part := range strings.SplitSeq(hours, "; ") {
		days, times, _ := strings.Cut(part, " ")
		from := strings.Index(names, days[:3]) / 3
		to := strings.Index(names, days[len(days)-3:]) / 3
		for ; ; from = (from + 1) % 7 {
			if int(wall.Weekday()) == from {
				for one := range strings.SplitSeq(times, ",") {
					if clock := wall.Format("15:04"); clock >= one[:5] && clock < one[6:] {
						return true
					}
				}
			}
			if from == to {
				break
			}
		}
	}
	return false
}

// A month has at least and at most the days that a lower bound counts with.
func TestTheEarliestInstantOfMonthsIsEarly(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 120; n++ {
		_, after := stepOf(t, "UTC", fmt.Sprintf("after: %d months", n), rule.Calendar{})
		_, before := stepOf(t, "UTC", fmt.Sprintf("before: %d months", n), rule.Calendar{})
		for since := time.Date(2092, time.January, 1, 0, 0, 0, 0, time.UTC); since.Year() < 2109; since = since.AddDate(0, 0, 1) {
			for _, timing := range []*rule.Timing{after, before} {
				at, err := due(timing, since)
				if early := at.Sub(since) - timing.Earliest(0); err != nil || early < 0 || early > 9*24*time.Hour {
					t.Fatalf("%d months after %s: %s earlier, %v", n, since, early, err)
				}
			}
		}
	}
}

// A row that has been open for a lifetime costs no loop over its repetitions.
func TestTheLastRepetitionIsFoundWithoutThoseBefore(t *testing.T) {
	t.Parallel()
	since := time.Date(1, time.January, 2, 3, 4, 5, 0, time.UTC)
	_, timing := stepOf(t, "UTC", "after: 1h, every: 90m", rule.Calendar{})
	at := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	want := 1 + int((at.Unix()-since.Unix()-3600)/5400)
	last, next, err := timing.Around(0, since, at)
	if err != nil || last.Number != want || next.Number != want+1 || next.At.Sub(last.At) != 90*time.Minute || !next.At.After(at) {
		t.Errorf("%+v, %+v, %v, want number %d", last, next, err, want)
	}
}

func BenchmarkAround(b *testing.B) {
	since := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, fields := range []string{"after: 1h, every: 15m", "after: 1 month, every: 1 month", "after: 1 business day, every: 1 business day, calendar: c"} {
		b.Run(fields, func(b *testing.B) {
			_, timing := stepOf(b, "Europe/Berlin", fields, rule.Calendar{Timezone: "Europe/Berlin", Country: "DE", Region: "BE"})
			for b.Loop() {
				if _, _, err := timing.Around(0, since, since.AddDate(2, 0, 0)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// If both delays are months, each time counts from since.
func TestMonthsThatTheDataHoldDoNotDrift(t *testing.T) {
	t.Parallel()
	_, constant := stepOf(t, "Europe/Berlin", "after: 1 month, every: 1 month", rule.Calendar{})
	_, held := stepOf(t, "Europe/Berlin", "after: {interval: x}, every: 1 month", rule.Calendar{})
	_, paced := stepOf(t, "Europe/Berlin", "after: {interval: x}, every: {interval: y}", rule.Calendar{})
	month := &expr.Length{Months: 1}
	for _, text := range []string{"2026-01-31 10:00", "2026-08-30 10:00", "2028-01-29 02:30"} {
		since := berlin(t, text)
		for n := 1; n <= 14; n++ {
			want, err := constant.Nth(0, since, n)
			if err != nil {
				t.Fatal(err)
			}
			for name, timing := range map[string]*rule.Timing{"after": held, "after and every": paced} {
				of := timing.For([]expr.Held{{After: month, Every: month}}, nil)
				if got, err := of.Nth(0, since, n); err != nil || got != want {
					t.Errorf("%s: #%d since %s is %+v, want %+v, %v", name, n, text, got, want, err)
				}
				if last, next, err := of.Around(0, since, want.At); err != nil || last != want || next.Number != n+1 {
					t.Errorf("%s: around #%d since %s are %+v and %+v, %v", name, n, text, last, next, err)
				}
			}
		}
	}
}

// Whatever lengths the data hold: times of a step come in the order of their numbers, after the first one, and none comes
// after the last year.
func TestTheTimesOfAStepThatTheDataHoldNeitherWrapNorGoBack(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.March, 27, 9, 0, 0, 0, time.UTC)
	rnd := rand.New(rand.NewPCG(7, 7))
	extreme := func() int {
		return []int{0, 0, 1, -1, 1 + rnd.IntN(40), -rnd.IntN(40), math.MaxInt32, math.MinInt32, rnd.IntN(math.MaxInt32)}[rnd.IntN(9)]
	}
	times := func() time.Duration {
		return []time.Duration{0, 0, time.Microsecond, -time.Microsecond, time.Duration(extreme()) * time.Second, math.MaxInt64 - 807, -math.MaxInt64}[rnd.IntN(7)]
	}
	for range 3000 {
		l, count := expr.Length{Months: extreme(), Days: extreme(), Time: times()}, int64(math.MaxInt64)
		fields := []string{"", " at 07:30"}[rnd.IntN(2)]
		s, timing := stepOf(t, "Europe/Berlin", "after: 1h"+fields+`, every: {interval: x}, times: {count: y}`, rule.Calendar{})
		timing = timing.For([]expr.Held{{Every: &l, Times: &count}}, nil)
		first, err := timing.Nth(0, since, 1)
		if err != nil || first.Number != 1 {
			t.Fatal(first, err)
		}
		before, ended := first, false
		for _, n := range []int{2, 3, 10, 1000, 1_000_000, 500_000_000, 999_999_999} {
			o, err := timing.Nth(0, since, n)
			switch {
			case err != nil, ended && o.Number > 0, o.Number > 0 && (!o.At.After(before.At) || o.At.Year() >= 2200):
				t.Fatalf("%v%s: #%d is at %s after #%d at %s, %v", l, s.When(), n, o.At, before.Number, before.At, err)
			case o.Number > 0 && o.At.Before(first.At.Add(time.Duration(n-1)*time.Minute)):
				t.Fatalf("%v: #%d is at %s, which floods", l, n, o.At)
			case o.Number > 0:
				before = o
			}
			ended = ended || o.Number == 0
		}
		last, next, err := timing.Around(0, since, since.AddDate(1, 0, 0))
		if err != nil || last.Number == 0 || last.At.After(since.AddDate(1, 0, 0)) || next.Number > 0 && !next.At.After(since.AddDate(1, 0, 0)) {
			t.Fatalf("%v: around a year later are %+v and %+v, %v", l, last, next, err)
		}
	}
}
