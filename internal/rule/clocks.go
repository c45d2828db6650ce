package rule

import (
	"sync"
	"time"

	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// clocks are those of a time zone. Days are midnights in UTC, and times of day are durations from midnight
// by the clock on the wall: on a day of a time change, 09:00 is 9h.
type clocks struct {
	zone  *time.Location
	shift func() time.Duration // by how much clocks differ at most; looked up once
}

// clocksOf returns the clocks of a zone by its name in the IANA database. Empty: UTC.
func clocksOf(timezone string) (*clocks, error) {
	zone, err := crontab.Zone("", timezone)
	c := &clocks{zone: zone}
	c.shift = sync.OnceValue(c.widestShift)
	return c, err
}

// anyClocks returns clocks that stand for those of any zone: no two of them differ by more than 26 hours, also if one
// skips a day or has it twice.
func anyClocks() *clocks {
	return &clocks{zone: time.UTC, shift: func() time.Duration { return 26 * time.Hour }}
}

// today returns the day of an instant.
func (c *clocks) today(at time.Time) time.Time {
	year, month, d := at.In(c.zone).Date()
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// wall returns what clocks show at an instant, as if it were UTC.
func (c *clocks) wall(at time.Time) time.Time {
	_, offset := at.In(c.zone).Zone()
	return at.Add(time.Duration(offset) * time.Second).UTC()
}

// instant returns the instant at which clocks show a time of a day. If they show it twice, it is the
// first instant. If they skip it, it is the instant at which they skip.
func (c *clocks) instant(today time.Time, clock time.Duration) time.Time {
	wall := today.Add(clock)
	_, before := wall.Add(-day).In(c.zone).Zone()
	_, after := wall.Add(day).In(c.zone).Zone()
	first := wall.Add(-time.Duration(max(before, after)) * time.Second)
	last := wall.Add(-time.Duration(min(before, after)) * time.Second)
	switch {
	case c.wall(first).Equal(wall):
		return first
	case c.wall(last).Equal(wall):
		return last
	}
	skipped, _ := last.In(c.zone).ZoneBounds()
	return skipped
}

// addDate returns the instant some months and then some days after another one, or before it, at which clocks
// show the same. A month without the day of the month has its last day instead.
func (c *clocks) addDate(from time.Time, months, days int) time.Time {
	today := c.today(from)
	return c.instant(addMonths(today, months).AddDate(0, 0, days), c.wall(from).Sub(today))
}

// addMonths returns the day some months after another one. A month without the day has its last day instead.
func addMonths(today time.Time, months int) time.Time {
	first := time.Date(today.Year(), today.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(today.Day(), last)-1)
}

// widestShift returns by how much clocks differ at most from those of another time, looking at each
// week from 2015 to 2100. Only instants of the present decide whether a lower bound is early.
func (c *clocks) widestShift() time.Duration {
	const week = 7 * day
	at := time.Date(2015, time.January, 1, 0, 0, 0, 0, time.UTC)
	_, least := at.In(c.zone).Zone()
	most := least
	for ; c.zone != time.UTC && at.Year() < 2100; at = at.Add(week) {
		_, offset := at.In(c.zone).Zone()
		least, most = min(least, offset), max(most, offset)
	}
	return time.Duration(most-least) * time.Second
}
