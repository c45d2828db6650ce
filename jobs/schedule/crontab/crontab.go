package crontab

import (
	"iter"
	"slices"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// The instants of every crontab lie between these two, in Unix seconds.
var minimum, maximum = grid.Min().Unix(), grid.Max().Unix()

// Crontab is an ordered set of instants in whole seconds. It is a value that never changes: it may
// be copied, and many goroutines may use it concurrently. The zero Crontab has no instants; Parse
// makes the others.
type Crontab struct{ set set }

// set is implemented by each form of a crontab.
type set interface {
	// first returns the first instant at or after a Unix time, and false if there is none.
	first(from int64) (int64, bool)
}

// Next returns the first instant strictly after another, in UTC. Returns false if there is none.
func (c Crontab) Next(after time.Time) (time.Time, bool) { return instant(c.next(after.Unix())) }

// Prev returns the last instant strictly before another, in UTC. Returns false if there is none. It
// searches by bisection, with some 10 to 50 calls of Next, however much time lies between.
func (c Crontab) Prev(before time.Time) (time.Time, bool) {
	seconds := before.Unix()
	if before.Nanosecond() > 0 {
		seconds++
	}
	return instant(c.prev(seconds))
}

// Between yields the instants after from, up to and including to, oldest first, in UTC: with two
// neighbouring slots, what is due at the second.
func (c Crontab) Between(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for at, ok := c.Next(from); ok && !at.After(to); at, ok = c.Next(at) {
			if !yield(at) {
				return
			}
		}
	}
}

// Latest returns the newest instants of Between(from, to), at most n, oldest first. What it costs
// depends on n, not on how many there are: an outage of a year is as cheap as one of an hour.
func (c Crontab) Latest(n int, from, to time.Time) []time.Time {
	var latest []time.Time
	for before := to.Add(1); len(latest) < n; {
		at, ok := c.Prev(before)
		if !ok || !at.After(from) {
			break
		}
		latest, before = append(latest, at), at
	}
	slices.Reverse(latest)
	return latest
}

func (c Crontab) next(after int64) (int64, bool) {
	if c.set == nil || after >= maximum {
		return 0, false
	}
	at, ok := c.set.first(max(after+1, minimum))
	return at, ok && at <= maximum
}

// prev looks back twice as far each time until there is an instant, then halves what may hold a
// later one.
func (c Crontab) prev(before int64) (int64, bool) {
	high := min(before, maximum+1)
	var at int64
	for back := int64(time.Minute / time.Second); ; back *= 2 {
		from, ok := max(high-back, minimum), false
		if at, ok = c.next(from - 1); ok && at < high {
			break
		}
		if from == minimum {
			return 0, false
		}
	}
	for {
		later, ok := c.next(at)
		if !ok || later >= high {
			return at, true
		}
		middle := later + (high-later)/2
		if at, ok = c.next(middle - 1); !ok || at >= high {
			at, high = later, middle
		}
	}
}

func instant(seconds int64, ok bool) (time.Time, bool) {
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// series is the form of @every and, with an interval of 0, of @at.
type series struct{ start, interval int64 }

func (s series) first(from int64) (int64, bool) {
	if from <= s.start || s.interval == 0 {
		return s.start, from <= s.start
	}
	return from + (s.interval-(from-s.start)%s.interval)%s.interval, true
}
