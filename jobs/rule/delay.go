package rule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/internal/spoken"
)

const day = 24 * time.Hour

// The longest delays: ten years, in each unit.
const (
	maxDuration     = 3660 * day
	maxWeeks        = 520
	maxMonths       = 120
	maxBusinessDays = 2600
	maxBusinessTime = 20_800 * time.Hour
)

// Delay is a time span, in exactly one of its units. Its text is such as "48h", "2w", "1 month",
// "3 business days" or "3d at 09:00".
type Delay struct {
	// Duration is a plain span. A day has 24 hours.
	Duration time.Duration
	// Weeks and Months keep the time of day by the clocks of the rule's zone. A month that lacks the day
	// of the month has its last day instead.
	Weeks  int
	Months int
	// BusinessDays counts the working days of a calendar.
	BusinessDays int
	// BusinessTime counts the working hours of a calendar.
	BusinessTime time.Duration
	// At is a time of day, such as "09:00": the delay ends when clocks next show it. In business time, these
	// are the clocks of the calendar, on a working day. Otherwise they are those of the rule's zone. Empty: the
	// delay ends at once.
	At string
}

var errDelay = errors.New("want a duration such as 90m, 48h or 10d, weeks or months such as 2w or 1 month, " +
	"or a number of business days, hours or minutes, such as 3 business days")

// units are those of delays that have a number before the unit, in the singular.
var units = map[string]func(n int) Delay{
	"minute":          func(n int) Delay { return Delay{Duration: time.Duration(n) * time.Minute} },
	"hour":            func(n int) Delay { return Delay{Duration: time.Duration(n) * time.Hour} },
	"day":             func(n int) Delay { return Delay{Duration: time.Duration(n) * day} },
	"week":            func(n int) Delay { return Delay{Weeks: n} },
	"month":           func(n int) Delay { return Delay{Months: n} },
	"year":            func(n int) Delay { return Delay{Months: 12 * n} },
	"business day":    func(n int) Delay { return Delay{BusinessDays: n} },
	"business hour":   func(n int) Delay { return Delay{BusinessTime: time.Duration(n) * time.Hour} },
	"business minute": func(n int) Delay { return Delay{BusinessTime: time.Duration(n) * time.Minute} },
}

// ParseDelay reads a delay: a duration such as "90m", "48h" or "10d", weeks or months such as "2w" or
// "1 month", or business time such as "3 business days", "4 business hours" or "30 business minutes". A
// time of day may follow: "3d at 09:00".
func ParseDelay(text string) (d Delay, err error) {
	span, at, timed := strings.Cut(text, " at ")
	if d, err = parseSpan(strings.Join(strings.Fields(span), " ")); err != nil {
		return Delay{}, fmt.Errorf("%q: %w", text, err)
	}
	if d.At = strings.TrimSpace(at); timed {
		if clock, err := parseTimeOfDay(d.At); err != nil || clock == day {
			return Delay{}, fmt.Errorf("%q: want a time of day from 00:00 to 23:59, such as 3d at 09:00", text)
		}
	}
	return d, nil
}

// parseSpan reads a delay without a time of day.
func parseSpan(text string) (Delay, error) {
	number, unit, spelled := strings.Cut(text, " ")
	if weeks, isWeeks := strings.CutSuffix(text, "w"); isWeeks {
		number, unit, spelled = weeks, "weeks", true
	}
	if !spelled {
		d, err := duration.Parse(text)
		switch {
		case err != nil:
			return Delay{}, errDelay
		case d%time.Second != 0:
			return Delay{}, errors.New("must be whole seconds")
		}
		return Delay{Duration: d}, Delay{Duration: d}.bounded()
	}
	of := units[strings.TrimSuffix(unit, "s")]
	if of == nil {
		return Delay{}, errDelay
	}
	n, err := strconv.ParseInt(number, 10, 24)
	if err != nil || n < 1 {
		return Delay{}, errors.New("want a whole number of at least 1, such as 3 business days")
	}
	return of(int(n)), of(int(n)).bounded()
}

// bounded returns an error for a delay that is too long.
func (d Delay) bounded() error {
	switch {
	case d.Duration > maxDuration:
		return fmt.Errorf("must be at most %dd", maxDuration/day)
	case d.Weeks > maxWeeks || d.Months > maxMonths:
		return fmt.Errorf("must be at most %d weeks or %d months", maxWeeks, maxMonths)
	case d.BusinessDays > maxBusinessDays || d.BusinessTime > maxBusinessTime:
		return fmt.Errorf("must be at most %d business days or %d business hours", maxBusinessDays, maxBusinessTime/time.Hour)
	}
	return nil
}

// Business reports whether a delay needs a calendar.
func (d Delay) Business() bool { return d.BusinessDays != 0 || d.BusinessTime != 0 }

// String writes a delay in the form that ParseDelay reads, such as "48h", "10d", "2w" or
// "3 business days at 09:00".
func (d Delay) String() string {
	if d.At != "" {
		at := " at " + d.At
		d.At = ""
		return d.String() + at
	}
	switch {
	case d.Weeks != 0:
		return fmt.Sprintf("%dw", d.Weeks)
	case d.Months != 0 && d.Months%12 == 0:
		return spoken.Count(d.Months/12, "year", "years")
	case d.Months != 0:
		return spoken.Count(d.Months, "month", "months")
	case d.BusinessDays != 0:
		return spoken.Count(d.BusinessDays, "business day", "business days")
	case d.BusinessTime%time.Hour != 0:
		return spoken.Count(int64(d.BusinessTime/time.Minute), "business minute", "business minutes")
	case d.BusinessTime != 0:
		return spoken.Count(int64(d.BusinessTime/time.Hour), "business hour", "business hours")
	case d.Duration > 3*day && d.Duration%day == 0:
		return fmt.Sprintf("%dd", d.Duration/day)
	}
	return duration.Format(d.Duration)
}

// MarshalText is String.
func (d Delay) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDelay.
func (d *Delay) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDelay(string(text))
	return err
}

// kind returns the unit of a delay, within which delays compare, and the amount. A time of day makes a unit
// of its own.
func (d Delay) kind() (unit string, amount int64) {
	switch {
	case d.Weeks != 0:
		unit, amount = "weeks", int64(d.Weeks)
	case d.Months != 0:
		unit, amount = "months", int64(d.Months)
	case d.BusinessDays != 0:
		unit, amount = "business days", int64(d.BusinessDays)
	case d.BusinessTime != 0:
		unit, amount = "business time", int64(d.BusinessTime)
	default:
		unit, amount = "time", int64(d.Duration)
	}
	return unit + d.At, amount
}
