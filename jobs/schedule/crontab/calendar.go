package crontab

import (
	"math"
	"math/bits"
	"time"
)

// calendar is the form of five fields. A field is a set of bits: bit 5 of hour is 5 o'clock.
type calendar struct {
	minute       uint64
	hour         uint32
	day          uint32 // of the month
	month        uint16
	weekday      uint8
	dayOrWeekday bool // day and weekday are both restricted: one of them is enough
	fixed        bool // neither minute nor hour has a wildcard or a step
	zone         *time.Location

	relative relative // the days beside day and weekday that depend on the month
}

// longestPause is the longest time between two instants: 29 February on one day of the week, across
// a century without a leap year.
const longestPause = 40 * 12 // months

const secondsPerDay = 24 * 60 * 60

// A span is a time in which a zone does not change its offset from UTC.
type span struct {
	start, end int64 // Unix seconds; end is not part of it
	offset     int64
	reached    int64 // the local time at which the span before it ended
}

// first walks from span to span, as a local time that matches may lie in a later one.
func (c *calendar) first(from int64) (int64, bool) {
	for from <= maximum {
		s := spanAt(c.zone, from)
		local := from + s.offset
		if c.fixed && (from == s.start || local < s.reached) {
			local = s.reached // what a gap has skipped is due at its end; what exists twice has been
		}
		local, ok := c.match(local)
		if !ok {
			return 0, false
		}
		if at := max(local-s.offset, s.start); at < s.end {
			return at, true
		}
		from = s.end
	}
	return 0, false
}

func spanAt(zone *time.Location, at int64) span {
	t := time.Unix(at, 0).In(zone)
	_, offset := t.Zone()
	s := span{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset), reached: math.MinInt64}
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= at { // on 31 December of a leap year, by ZoneBounds: https://go.dev/issue/81583
		s.end = at - at%secondsPerDay + secondsPerDay
	}
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		s.start, s.reached = start.Unix(), start.Unix()+int64(before)
	}
	return s
}

// match returns the first local time at or after another that the fields match. Local times are
// seconds, too, counted as if the zone were UTC.
func (c *calendar) match(local int64) (int64, bool) {
	t := time.Unix(local+59, 0).UTC() // in the first whole minute
	year, month, day := t.Date()
	if c.days(year, month)>>day&1 == 1 {
		hour, minute, _ := t.Clock()
		if rest := c.minute >> minute; rest != 0 && c.hour>>hour&1 == 1 {
			return seconds(year, month, day, hour, minute+bits.TrailingZeros64(rest)), true
		}
		if rest := c.hour >> (hour + 1); rest != 0 {
			return seconds(year, month, day, hour+1+bits.TrailingZeros32(rest), bits.TrailingZeros64(c.minute)), true
		}
	}
	day++
	for range longestPause + 2 { // the month begun at either end
		if rest := c.days(year, month) >> day; rest != 0 {
			day += bits.TrailingZeros32(rest)
			return seconds(year, month, day, bits.TrailingZeros32(c.hour), bits.TrailingZeros64(c.minute)), true
		}
		if day, month = 1, month+1; month > time.December {
			year, month = year+1, time.January
		}
	}
	return 0, false
}

// days returns the days of a month that match, bit 1 for the first.
func (c *calendar) days(year int, month time.Month) uint32 {
	if c.month>>month&1 == 0 {
		return 0
	}
	end := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	const weeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
	monthsFirst := (int(end.Weekday()) + 36 - end.Day()) % 7 // a day of the week
	byWeekday := uint32(uint64(c.weekday) * weeks >> monthsFirst << 1)
	byDay := c.day
	if c.relative != (relative{}) {
		monthdays, weekdays := c.relative.days(end.Day(), time.Weekday(monthsFirst))
		byDay, byWeekday = byDay|monthdays, byWeekday|weekdays
	}
	days := byDay & byWeekday
	if c.dayOrWeekday {
		days = byDay | byWeekday
	}
	return days & (1<<(end.Day()+1) - 2)
}

func seconds(year int, month time.Month, day, hour, minute int) int64 {
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Unix()
}
