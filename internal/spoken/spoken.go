// Package spoken writes durations and lists of names for people, and words for shells.
package spoken

import (
	"fmt"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	year = 365.25 * 24 * time.Hour
)

// long holds the units of durations from two of them on, short how exact the others are.
var (
	long = []struct {
		from, unit time.Duration
		name       string
	}{{2 * year, year, "years"}, {year / 6, year / 12, "months"}, {2 * day, day, "days"}}
	short = []struct{ from, digits time.Duration }{
		{time.Hour, time.Minute},
		{time.Minute, time.Second},
		{time.Second, time.Millisecond},
		{0, 10 * time.Microsecond},
	}
)

// Duration returns d in at most two units, such as 27h32m. A long duration is rounded to days,
// months or years. A negative one is exact.
func Duration(d time.Duration) string {
	for _, l := range long {
		if d >= l.from {
			return fmt.Sprintf("%.0f %s", float64(d)/float64(l.unit), l.name)
		}
	}
	for _, s := range short {
		if d >= s.from {
			d = d.Round(s.digits)
			break
		}
	}
	return Exact(d)
}

// About returns an estimated duration: in whole seconds from 10 s on, in tenths below, and in
// milliseconds below one second.
func About(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Second / 10)
	default:
		d = d.Round(time.Millisecond)
	}
	return Duration(d)
}

// Exact returns d without trailing zero units, such as 1m for 1m0s. It never uses days.
func Exact(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
