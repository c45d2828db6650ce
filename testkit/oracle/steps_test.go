package oracle_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// unit is what a delay counts.
type unit int

const (
	plain         unit = iota // n minutes, which pass
	days                      // by the clocks of the rule
	weeks                     // by the clocks of the rule
	monthly                   // by the clocks of the rule
	held                      // n times a length that the data hold
	businessDays              // of a calendar
	businessHours             // n minutes of a calendar
)

// delay is a number of units.
type delay struct {
	n    int
	unit unit
	of   length // with held
}

func (d delay) String() string {
	switch d.unit {
	case days:
		return fmt.Sprintf("%dd", d.n)
	case weeks:
		return fmt.Sprintf("%dw", d.n)
	case monthly:
		if d.n%12 == 0 {
			return fmt.Sprintf("%d year%s", d.n/12, plural(d.n/12))
		}
		return fmt.Sprintf("%d month%s", d.n, plural(d.n))
	case businessDays:
		return fmt.Sprintf("%d business day%s", d.n, plural(d.n))
	case businessHours:
		if d.n%60 == 0 {
			return fmt.Sprintf("%d business hour%s", d.n/60, plural(d.n/60))
		}
		return fmt.Sprintf("%d business minutes", d.n)
	}
	if d.n%60 == 0 {
		return fmt.Sprintf("%dh", d.n/60)
	}
	return fmt.Sprintf("%dm", d.n)
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// length is a delay that the data hold. ok is false if it is null.
type length struct {
	months, days int
	time         time.Duration
	ok           bool
}

// step is a step of a rule.
type step struct {
	name     string // and the type of its event, if it has one
	delay    delay
	before   bool
	at       string // a time of day, or empty
	data     *expression
	atLeast  time.Duration
	every    *delay
	pace     *expression // the data hold every
	times    int
	count    *expression // the data hold times
	calendar *calendar
	region   *expression // the data name the calendar, of these
	all      []*calendar
	event    bool
	sql      bool
	closes   bool // the statement closes the row
	job      bool
}

func (s *step) text(rule string) string {
	var b strings.Builder
	switch {
	case s.data != nil && s.atLeast > 0:
		fmt.Fprintf(&b, "      - after: {interval: %q, at-least: %s}\n", s.data.sql, s.atLeast)
	case s.data != nil:
		fmt.Fprintf(&b, "      - after: {interval: %q}\n", s.data.sql)
	default:
		word, at := "after", ""
		if s.before {
			word = "before"
		}
		if s.at != "" {
			at = " at " + s.at
		}
		fmt.Fprintf(&b, "      - %s: %s%s\n", word, s.delay, at)
	}
	fmt.Fprintf(&b, "        name: %s\n", s.name)
	if s.pace != nil {
		fmt.Fprintf(&b, "        every: {interval: %q}\n", s.pace.sql)
	}
	if s.count != nil {
		fmt.Fprintf(&b, "        times: {count: %q}\n", s.count.sql)
	}
	if s.every != nil {
		fmt.Fprintf(&b, "        every: %s\n", s.every)
	}
	if s.times > 0 {
		fmt.Fprintf(&b, "        times: %d\n", s.times)
	}
	switch {
	case s.region != nil:
		fmt.Fprintf(&b, "        calendar: {name: %q}\n", s.region.sql)
	case s.calendar != nil:
		fmt.Fprintf(&b, "        calendar: %s\n", s.calendar.name)
	}
	if s.event {
		fmt.Fprintf(&b, "        event: %s\n", s.name)
	}
	switch {
	case s.closes:
		fmt.Fprintf(&b, "        sql: update shop.o set acted_%s = true where id = $key\n", rule)
	case s.sql:
		fmt.Fprintf(&b, "        sql: insert into shop.log values ('%s', $key, $since, $step, $number, $payload)\n", rule)
	}
	if s.job {
		fmt.Fprintf(&b, "        job: tell.%s\n", s.name)
	}
	return b.String()
}

// repeats reports whether a step may fire more than once.
func (s *step) repeats() bool { return s.every != nil || s.pace != nil }

// looks reports whether another table moves the step.
func (s *step) looks() bool {
	return slices.ContainsFunc([]*expression{s.data, s.pace, s.count}, func(e *expression) bool { return e != nil && e.lookup })
}

// of returns the step with the calendar of a row.
func (s *step) of(t *tables, values row) *step {
	if s.region == nil {
		return s
	}
	return s.with(s.region.name(t, values))
}

// with returns the step with a calendar by its name.
func (s *step) with(name string) *step {
	own := *s
	own.calendar = s.all[slices.IndexFunc(s.all, func(c *calendar) bool { return c.name == name })]
	return &own
}

// paceOf returns the delay from one time to the next for a row. Nil: there is no next one.
func (s *step) paceOf(t *tables, values row) *delay {
	if s.pace == nil {
		return s.every
	}
	l := s.pace.length(t, values)
	if s.at != "" { // whole days
		for ; l.time > 0; l.time -= day {
			l.days++
		}
		l.time = 0
	}
	if !l.ok || time.Duration(28*l.months+l.days)*day+l.time <= 0 {
		return nil
	}
	return &delay{n: 1, unit: held, of: l}
}

// most returns how often a step may fire for a row. Negative: until the row is done.
func (s *step) most(t *tables, values row) int {
	if s.count != nil {
		n, ok := s.count.count(t, values)
		if !ok {
			return -1
		}
		return max(n, 0)
	}
	if s.times > 0 {
		return s.times
	}
	return -1
}

// nth returns the nth instant of a step, from 1. pauses are those of the row, all of which have ended.
func (s *step) nth(since time.Time, data length, every *delay, n int, zone *time.Location, pauses []span) time.Time {
	if every == nil || n == 1 {
		return s.timeOfDay(s.later(since, s.first(since, data, zone), s.delay.unit, pauses), zone, pauses)
	}
	if s.byMonths(every) {
		d := s.delay.n
		if s.before {
			d = -d
		}
		e := (n - 1) * every.n
		if every.unit == held {
			e *= every.of.months
		}
		return s.timeOfDay(s.later(since, instant(months(shows(since, zone), d+e), zone), plain, pauses), zone, pauses)
	}
	return s.goOn(since, s.nth(since, data, every, 1, zone, pauses), *every, n-1, zone, pauses)
}

// byMonths reports whether each time of a step is counted from since, by months.
func (s *step) byMonths(every *delay) bool {
	return s.data == nil && s.delay.unit == monthly &&
		(every.unit == monthly || every.unit == held && every.of == length{months: every.of.months, ok: true})
}

// goOn returns the nth instant after one of a step. A pause counts from since on.
func (s *step) goOn(since, first time.Time, e delay, n int, zone *time.Location, pauses []span) time.Time {
	clocks := zone
	if s.calendar != nil {
		clocks = s.calendar.zone
	}
	e.n *= n
	begin := first
	if begin.Before(since) {
		begin = since
	}
	if s.at == "" {
		return s.later(begin, s.add(first, e, zone), e.unit, pauses)
	}
	date := midnight(shows(first, clocks))
	switch e.unit {
	case days:
		date = date.AddDate(0, 0, e.n)
	case weeks:
		date = date.AddDate(0, 0, 7*e.n)
	case monthly:
		date = months(date, e.n)
	case held:
		date = months(date, e.n*e.of.months).AddDate(0, 0, e.n*e.of.days)
	case businessDays:
		date = s.calendar.daysOn(date, e.n)
	}
	for s.calendar != nil && !s.calendar.works(date) {
		date = date.Add(day)
	}
	at := instant(date.Add(timeOfDay(s.at)), clocks)
	return s.timeOfDay(s.later(begin, at, e.unit, pauses), zone, pauses)
}

// later returns the first instant at or after another one at which the clock of a row has run as long from its start as
// without pauses. The clock of a step in business time runs in working hours.
func (s *step) later(from, at time.Time, u unit, pauses []span) time.Time {
	between := func(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }
	if u >= businessDays {
		between = s.calendar.worked
	}
	total := between(from, at)
	for {
		run := between(from, at)
		inside := time.Time{}
		for _, p := range pauses {
			begin, end := p.from, p.to
			if begin.Before(from) {
				begin = from
			}
			if !at.Before(begin) && at.Before(end) && !at.Before(from) {
				inside = end
			}
			if end.After(at) {
				end = at
			}
			if begin.Before(end) {
				run -= between(begin, end)
			}
		}
		switch missing := total - run; {
		case missing > 0 && u >= businessDays:
			at = s.calendar.addTime(at, missing)
		case missing > 0:
			at = at.Add(missing)
		case !inside.IsZero():
			at = inside
		default:
			return at
		}
	}
}

// first returns the end of the delay.
func (s *step) first(since time.Time, data length, zone *time.Location) time.Time {
	if s.data != nil {
		if data.months != 0 || data.days != 0 {
			since = instant(months(shows(since, zone), data.months).AddDate(0, 0, data.days), zone)
		}
		return since.Add(data.time)
	}
	if !s.before {
		return s.add(since, s.delay, zone)
	}
	n := s.delay.n
	switch s.delay.unit {
	case days:
		return instant(shows(since, zone).AddDate(0, 0, -n), zone)
	case weeks:
		return instant(shows(since, zone).AddDate(0, 0, -7*n), zone)
	case monthly:
		return instant(months(shows(since, zone), -n), zone)
	case businessDays:
		return s.calendar.subtractDays(since, n)
	case businessHours:
		return s.calendar.subtractTime(since, time.Duration(n)*time.Minute)
	}
	return since.Add(-time.Duration(n) * time.Minute)
}

// add adds a delay to an instant.
func (s *step) add(at time.Time, d delay, zone *time.Location) time.Time {
	switch d.unit {
	case days:
		return instant(shows(at, zone).AddDate(0, 0, d.n), zone)
	case weeks:
		return instant(shows(at, zone).AddDate(0, 0, 7*d.n), zone)
	case monthly:
		return instant(months(shows(at, zone), d.n), zone)
	case held:
		if d.of.months != 0 || d.of.days != 0 {
			at = instant(months(shows(at, zone), d.n*d.of.months).AddDate(0, 0, d.n*d.of.days), zone)
		}
		return at.Add(time.Duration(d.n) * d.of.time)
	case businessDays:
		return s.calendar.addDays(at, d.n)
	case businessHours:
		return s.calendar.addTime(at, time.Duration(d.n)*time.Minute)
	}
	return at.Add(time.Duration(d.n) * time.Minute)
}

func timeOfDay(at string) time.Duration {
	t, err := time.Parse("15:04", at)
	if err != nil {
		panic(err)
	}
	return t.Sub(midnight(t))
}

// timeOfDay returns when clocks first show the time of the step outside of a pause, at an instant or after it.
func (s *step) timeOfDay(end time.Time, zone *time.Location, pauses []span) time.Time {
	if s.at == "" {
		return end
	}
	if s.calendar != nil {
		zone = s.calendar.zone
	}
	for date := midnight(shows(end, zone)).Add(-day); ; date = date.Add(day) {
		at := instant(date.Add(timeOfDay(s.at)), zone)
		paused := slices.ContainsFunc(pauses, func(p span) bool { return !at.Before(p.from) && at.Before(p.to) })
		if !at.Before(end) && !paused && (s.calendar == nil || s.calendar.works(date)) {
			return at
		}
	}
}
