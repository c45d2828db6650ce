package oracle_test

import (
	"slices"
	"sort"
	"sync"
	"time"
)

const day = 24 * time.Hour

// shows returns what clocks of a zone show at an instant, as a time in UTC.
func shows(at time.Time, zone *time.Location) time.Time {
	t := at.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// midnight returns the day of a wall time.
func midnight(wall time.Time) time.Time { return wall.Truncate(day) }

// instants are those that walk found, by walked.
var instants sync.Map

type walked struct {
	wall int64 // in nanoseconds
	zone string
}

// instant returns the first instant at which clocks show a wall time. If they skip it, it is the
// instant of the skip.
func instant(wall time.Time, zone *time.Location) time.Time {
	key := walked{wall.UnixNano(), zone.String()}
	if at, known := instants.Load(key); known {
		return at.(time.Time)
	}
	at := walk(wall, zone)
	instants.Store(key, at)
	return at
}

// walk is instant. It walks through time.
func walk(wall time.Time, zone *time.Location) time.Time {
	const step = 15 * time.Minute
	at := wall.Add(-15 * time.Hour)
	for shows(at, zone).Before(wall) {
		at = at.Add(step)
	}
	for at = at.Add(-step).Truncate(time.Second); ; at = at.Add(time.Second) {
		if until := at.Add(time.Second); shows(until, zone).Before(wall) {
			continue
		}
		return later(at, at.Add(wall.Sub(shows(at, zone))), at.Add(time.Second))
	}
}

// later returns the middle of three instants, of which the last comes after the first.
func later(first, at, last time.Time) time.Time {
	if at.Before(first) {
		return first
	}
	if at.After(last) {
		return last
	}
	return at
}

// months adds months to a wall time. A month that lacks the day has its last day instead.
func months(wall time.Time, n int) time.Time {
	first := time.Date(wall.Year(), wall.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(wall.Day(), last)-1).Add(wall.Sub(midnight(wall)))
}

// span is open from one instant to before another.
type span struct{ from, to time.Time }

// calendar is a calendar of a file, and what it means.
type calendar struct {
	name, text string
	zone       *time.Location
	// hours are the minutes of a day of the week at which it opens and closes.
	hours map[time.Weekday][][2]int
	// closed are the days that are holidays, from a minute on. A key without a year is for each year.
	closed map[string]int
	// open are days that are none.
	open map[string]bool

	days map[time.Time][]span // by midnight
	// on has the working days after a day, and ahead the spans from an instant on, as far as they were walked: a step that
	// repeats asks for the same ones again and again.
	on    map[time.Time][]time.Time
	ahead map[time.Time]*walkAhead
}

// walkAhead has the spans of a calendar from an instant on, and how much time passes in them before each.
type walkAhead struct {
	next   time.Time // the day whose spans come next
	spans  []span
	before []time.Duration
	all    time.Duration
}

// spans returns the working hours of a day.
func (c *calendar) spans(date time.Time) []span {
	list, known := c.days[date]
	if known {
		return list
	}
	limit := 24 * 60
	for key, from := range c.closed {
		isDay := key == date.Format("2006-01-02") || key == date.Format("01-02")
		if isDay && !c.open[date.Format("2006-01-02")] && !c.open[date.Format("01-02")] {
			limit = min(limit, from)
		}
	}
	for _, h := range c.hours[date.Weekday()] {
		s := span{
			instant(date.Add(time.Duration(h[0])*time.Minute), c.zone),
			instant(date.Add(time.Duration(min(h[1], limit))*time.Minute), c.zone),
		}
		if h[0] < limit && s.from.Before(s.to) {
			list = append(list, s)
		}
	}
	c.days[date] = list
	return list
}

func (c *calendar) works(date time.Time) bool { return len(c.spans(date)) > 0 }

// around returns the spans of the days around an instant, in order, as far as n working days go.
func (c *calendar) around(at time.Time, before, after int) (list []span) {
	today := midnight(shows(at, c.zone))
	for date, n := today.Add(-day), 0; n <= before; date = date.Add(-day) {
		if c.works(date) {
			list, n = slices.Concat(c.spans(date), list), n+1
		}
	}
	list = append(list, c.spans(today)...)
	for date, n := today.Add(day), 0; n <= after; date = date.Add(day) {
		if c.works(date) {
			list, n = append(list, c.spans(date)...), n+1
		}
	}
	return list
}

// addDays adds working days to an instant.
func (c *calendar) addDays(at time.Time, n int) time.Time {
	for _, s := range c.around(at, 0, 1) { // from outside of the hours, the next opening
		if at.Before(s.to) {
			if at.Before(s.from) {
				at = s.from
			}
			break
		}
	}
	wall := shows(at, c.zone)
	return c.within(c.daysOn(midnight(wall), n), wall.Sub(midnight(wall)), true)
}

// subtractDays counts working days back from an instant.
func (c *calendar) subtractDays(at time.Time, n int) time.Time {
	inside := false
	closing := time.Time{}
	for _, s := range c.around(at, 1, 0) {
		inside = inside || !at.Before(s.from) && !at.After(s.to)
		if !s.to.After(at) {
			closing = s.to
		}
	}
	date := midnight(shows(at, c.zone))
	if !inside {
		at = closing
		date = midnight(shows(at.Add(-time.Nanosecond), c.zone))
	}
	tod := shows(at, c.zone).Sub(date)
	for ; n > 0; n-- {
		for date = date.Add(-day); !c.works(date); {
			date = date.Add(-day)
		}
	}
	return c.within(date, tod, false)
}

// daysOn returns the nth working day after a day.
func (c *calendar) daysOn(date time.Time, n int) time.Time {
	if n == 0 {
		return date
	}
	list := c.on[date]
	for last := date; len(list) < n; list = append(list, last) {
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		for last = last.Add(day); !c.works(last); {
			last = last.Add(day)
		}
	}
	if c.on == nil {
		c.on = map[time.Time][]time.Time{}
	}
	c.on[date] = list
	return list[n-1]
}

// within returns the instant of a time of a working day, kept within its hours.
func (c *calendar) within(date time.Time, tod time.Duration, forward bool) time.Time {
	at, spans := instant(date.Add(tod), c.zone), c.spans(date)
	for i, s := range spans {
		switch {
		case at.Before(s.from) && (forward || i == 0):
			return s.from
		case at.Before(s.from):
			return spans[i-1].to
		case at.Before(s.to) || at.Equal(s.to) && !forward:
			return at
		}
	}
	return spans[len(spans)-1].to
}

// addTime adds time that passes within the hours.
func (c *calendar) addTime(at time.Time, d time.Duration) time.Time {
	w := c.ahead[at]
	if w == nil {
		if w = (&walkAhead{next: midnight(shows(at, c.zone)).Add(-day)}); c.ahead == nil {
			c.ahead = map[time.Time]*walkAhead{}
		}
		c.ahead[at] = w
	}
	for ; w.all < d; w.next = w.next.Add(day) {
		for _, s := range c.spans(w.next) {
			if !at.Before(s.to) {
				continue
			}
			if at.After(s.from) {
				s.from = at
			}
			w.spans, w.before = append(w.spans, s), append(w.before, w.all)
			w.all += s.to.Sub(s.from)
		}
	}
	i := sort.Search(len(w.spans), func(i int) bool { return i+1 == len(w.spans) || w.before[i+1] >= d })
	return w.spans[i].from.Add(d - w.before[i])
}

// worked returns the time within the hours between two instants.
func (c *calendar) worked(from, to time.Time) (sum time.Duration) {
	for date := midnight(shows(from, c.zone)).Add(-day); !date.After(midnight(shows(to, c.zone)).Add(day)); date = date.Add(day) {
		for _, s := range c.spans(date) {
			begin, end := later(s.from, from, s.to), later(s.from, to, s.to)
			sum += max(end.Sub(begin), 0)
		}
	}
	return sum
}

// subtractTime counts time within the hours back.
func (c *calendar) subtractTime(at time.Time, d time.Duration) time.Time {
	for _, s := range slices.Backward(c.around(at, int(d/time.Hour)+3, 0)) {
		if !at.After(s.from) {
			continue
		}
		if at.After(s.to) {
			at = s.to
		}
		if left := at.Sub(s.from); d > left {
			d, at = d-left, s.from
			continue
		}
		return at.Add(-d)
	}
	panic("the spans do not suffice")
}
