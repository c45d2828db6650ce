package crontab

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Within returns the instants of a crontab from start up to but not including end. A zero time is
// no bound.
func (c Crontab) Within(start, end time.Time) Crontab {
	if c.set == nil || start.IsZero() && end.IsZero() {
		return c
	}
	w := window{c.set, math.MinInt64, math.MaxInt64}
	if !start.IsZero() {
		w.start = roundUp(start)
	}
	if !end.IsZero() {
		w.end = roundUp(end)
	}
	return Crontab{w}
}

// roundUp returns the first whole second at or after a time.
func roundUp(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// window is the part of a set that begins at start and ends before end.
type window struct {
	set        set
	start, end int64
}

func (w window) first(from int64) (int64, bool) {
	at, ok := w.set.first(max(from, w.start))
	return at, ok && at < w.end
}

// Except returns the instants of a crontab that no exclusion takes in. Each exclusion is one of
//
//	sat,sun                    days of the week, as in a crontab
//	2026-12-25                 a day
//	2026-12-24..2027-01-01     days, the last one too
//	* 12-13 * * mon-fri        the minutes that all five fields match; CRON_TZ= may stand before them
//
// and is about what the clocks show at the instant: those of zone, unless it names another. An
// error names the exclusion.
//
// If all instants of 80 years are left out, the rest counts as left out: to look further would hold
// up a run. If instants that are left out alternate with minutes that the crontab leaves free, 45
// days of them are enough.
func (c Crontab) Except(exclusions []string, zone *time.Location) (Crontab, error) {
	if c.set == nil || len(exclusions) == 0 {
		return c, nil
	}
	e := &except{set: c.set}
	for _, text := range exclusions {
		x, err := parseExclusion(text, zone)
		if err != nil {
			return Crontab{}, fmt.Errorf("exclusion %q: %w", text, err)
		}
		i := slices.IndexFunc(e.zones, func(z zoned) bool { return z.zone == x.zone })
		if i < 0 {
			i, e.zones = len(e.zones), append(e.zones, zoned{zone: x.zone})
		}
		e.zones[i].exclusions = append(e.zones[i].exclusions, x)
	}
	return Crontab{e}, nil
}

// except is a set without what exclusions take in.
type except struct {
	set   set
	zones []zoned
}

// zoned holds the exclusions of one time zone.
type zoned struct {
	zone       *time.Location
	exclusions []exclusion
}

// exclusion takes in what all its fields match, on the days from first up to last, in local time;
// see calendar.match.
type exclusion struct {
	calendar
	first, last int64
}

// maxExcluded bounds how often the search looks for a minute that is left; each time at least a
// minute is excluded.
const maxExcluded = 1 << 15

func (e *except) first(from int64) (int64, bool) {
	walks := make([]walk, len(e.zones))
	for i := range walks {
		walks[i] = walk{zoned: &e.zones[i], end: math.MinInt64, day: math.MinInt64}
	}
	for range maxExcluded {
		at, ok := e.set.first(from)
		if !ok || at > maximum {
			return 0, false
		}
		from = at
		for i := range walks {
			from = walks[i].until(from)
		}
		if from == at {
			return at, true
		}
	}
	return 0, false
}

// walk goes through what the exclusions of a zone take in, from earlier to later instants. It joins
// all exclusions once a day: to ask each of them at every minute took seconds.
type walk struct {
	*zoned
	offset, end int64 // of the span that the walk is in
	day         int64 // the local midnight of minutes
	minutes     [24]uint64
	year        int
	month       time.Month
	days        []uint32 // for each exclusion, those of the month
}

// until returns up to when an instant, and all after it, is excluded: the instant itself when it is
// not.
func (w *walk) until(at int64) int64 {
	if at >= w.end {
		s := spanAt(w.zone, at)
		w.offset, w.end = s.offset, s.end
	}
	local := at + w.offset
	second := ((local % secondsPerDay) + secondsPerDay) % secondsPerDay
	if day := local - second; day != w.day {
		w.read(day)
	}
	free := w.free(int(second / 60))
	if free == int(second/60) {
		return at
	}
	return min(w.day+int64(free)*60-w.offset, w.end)
}

// read joins what the exclusions take in on the day that begins at a local midnight.
func (w *walk) read(midnight int64) {
	w.day, w.minutes = midnight, [24]uint64{}
	year, month, day := time.Unix(midnight, 0).UTC().Date()
	if w.days == nil || year != w.year || month != w.month {
		w.year, w.month, w.days = year, month, w.days[:0]
		for i := range w.exclusions {
			w.days = append(w.days, w.exclusions[i].days(year, month))
		}
	}
	for i := range w.exclusions {
		x := &w.exclusions[i]
		if w.days[i]>>day&1 == 0 || midnight < x.first || midnight >= x.last {
			continue
		}
		for hours := x.hour; hours != 0; hours &= hours - 1 {
			w.minutes[bits.TrailingZeros32(hours)] |= x.minute
		}
	}
}

// free returns the first minute of the day, at or after another, that no exclusion takes in; the
// end of the day if there is none.
func (w *walk) free(minute int) int {
	const everyMinute = 1<<60 - 1
	rest := ^w.minutes[minute/60] & everyMinute >> (minute % 60) << (minute % 60)
	for hour := minute / 60; ; rest = ^w.minutes[hour] & everyMinute {
		if rest != 0 {
			return hour*60 + bits.TrailingZeros64(rest)
		}
		if hour++; hour == len(w.minutes) {
			return hour * 60
		}
	}
}

// errExclusion lists the forms of an exclusion.
var errExclusion = errors.New("want days of the week (sat,sun), a day (2026-12-25), " +
	"days (2026-12-24..2027-01-01) or five fields (* 12-13 * * *)")

func parseExclusion(text string, zone *time.Location) (x exclusion, err error) {
	rest, name, err := cutZone(strings.TrimSpace(text), "")
	if err == nil && name != "" {
		zone, err = location(name)
	}
	if err != nil {
		return x, err
	}
	x = exclusion{first: math.MinInt64, last: math.MaxInt64}
	fields := "* * * * *"
	switch {
	case rest == "" || rest[0] == '@':
		return x, errExclusion
	case len(rest) > 4 && rest[4] == '-' && !strings.ContainsAny(rest, " \t"):
		if x.first, x.last, err = days(rest); err != nil {
			return x, err
		}
	case !strings.ContainsAny(rest, " \t"):
		fields = "* * * * " + rest
	default:
		fields = rest
	}
	c, err := parseCalendar(fields, zone)
	if err != nil && !strings.ContainsAny(rest, " \t") {
		err = errExclusion
	}
	if err != nil {
		return x, err
	}
	x.calendar = *c
	return x, nil
}

// days reads a day, or the first and the last of several.
func days(text string) (first, end int64, err error) {
	from, to, several := strings.Cut(text, "..")
	if !several {
		to = from
	}
	a, errA := time.Parse(time.DateOnly, from)
	b, errB := time.Parse(time.DateOnly, to)
	if errA != nil || errB != nil || b.Before(a) {
		return 0, 0, errors.New("want a day such as 2026-12-25, " +
			"or the first and the last of several such as 2026-12-24..2027-01-01")
	}
	return a.Unix(), b.AddDate(0, 0, 1).Unix(), nil
}
