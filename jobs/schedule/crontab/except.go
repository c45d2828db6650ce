package crontab

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Within returns the instants of a crontab from start up to but not including end. A zero time is no bound.
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
// and is about what the clocks show at the instant: those of zone, unless it names another. An error names the exclusion.
//
// Where all instants of 80 years of days are left out, or of 22 days of single minutes, the rest counts as left out: to look
// further would hold up a run.
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
		e.exclusions = append(e.exclusions, x)
	}
	return Crontab{e}, nil
}

// except is a set without what exclusions take in.
type except struct {
	set        set
	exclusions []exclusion
}

// maxExcluded bounds how often what is left is looked for; each time a minute is excluded at the least.
const maxExcluded = 1 << 15

func (e *except) first(from int64) (int64, bool) {
	for range maxExcluded {
		at, ok := e.set.first(from)
		if !ok || at > maximum {
			return 0, false
		}
		if from = e.until(at); from == at {
			return at, true
		}
	}
	return 0, false
}

// until returns up to when an instant, and all after it, is excluded: the instant itself when it is not.
func (e *except) until(at int64) int64 {
	for _, x := range e.exclusions {
		s := spanAt(x.zone, at)
		if local := at + s.offset; x.until(local) > local {
			return min(x.until(local)-s.offset, s.end)
		}
	}
	return at
}

// exclusion takes in what all its fields match, on the days from first up to last, in local time; see calendar.match.
type exclusion struct {
	calendar
	first, last int64
}

const (
	everyMinute = 1<<60 - 1
	everyHour   = 1<<24 - 1
)

// until returns up to when a local time, and all after it, is taken in: the time itself when it is not.
func (x *exclusion) until(local int64) int64 {
	t := time.Unix(local, 0).UTC()
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	switch {
	case local < x.first || local >= x.last || x.days(year, month)>>day&1 == 0 || x.hour>>hour&1 == 0 || x.minute>>minute&1 == 0:
		return local
	case x.minute != everyMinute:
		return seconds(year, month, day, hour, minute+bits.TrailingZeros64(^(x.minute>>minute)))
	case x.hour != everyHour:
		return seconds(year, month, day, hour+1, 0)
	default:
		return seconds(year, month, day+1, 0, 0)
	}
}

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
		return x, errors.New("want days of the week (sat,sun), a day (2026-12-25), days (2026-12-24..2027-01-01) or five fields (* 12-13 * * *)")
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
		return 0, 0, errors.New("want a day such as 2026-12-25, or the first and the last of several such as 2026-12-24..2027-01-01")
	}
	return a.Unix(), b.AddDate(0, 0, 1).Unix(), nil
}
