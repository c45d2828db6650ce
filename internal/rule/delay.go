package rule

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/spoken"
)

const day = 24 * time.Hour

// The longest delays: ten years, in each unit.
const (
	maxDuration     = maxDays * day
	maxDays         = 3660
	maxWeeks        = 520
	maxMonths       = 120
	maxBusinessDays = 2600
	maxBusinessTime = 20_800 * time.Hour
)

// Delay is a time span, in exactly one of its units. Its text is such as "48h", "10d", "2w", "1 month",
// "3 business days" or "3d at 09:00".
type Delay struct {
	// Duration is time that passes.
	Duration time.Duration
	// Days, Weeks and Months keep the time of day by the clocks of the rule's zone. A month that lacks the
	// day of the month has its last day instead.
	Days   int
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

var errDelay = errors.New("want a duration such as 90m or 48h, days, weeks or months such as 10d, 2w or 1 month, " +
	"or a number of business days, hours or minutes, such as 3 business days")

var digits = regexp.MustCompile(`^[0-9]+$`)

// errMixed is the error of a delay such as 1d12h: a day counts by clocks, and 12 hours pass.
var errMixed = errors.New("a day counts by the clocks of the zone, and an hour is time that passes: " +
	"write one of them, such as 36h, or 1d at 12:00")

// units are those of delays that have a number before the unit, in the singular: one of each, and the largest number.
var units = map[string]struct {
	one  Delay
	most uint64
}{
	"minute":          {Delay{Duration: time.Minute}, uint64(maxDuration / time.Minute)},
	"hour":            {Delay{Duration: time.Hour}, uint64(maxDuration / time.Hour)},
	"day":             {Delay{Days: 1}, maxDays},
	"week":            {Delay{Weeks: 1}, maxWeeks},
	"month":           {Delay{Months: 1}, maxMonths},
	"year":            {Delay{Months: 12}, maxMonths / 12},
	"business day":    {Delay{BusinessDays: 1}, maxBusinessDays},
	"business hour":   {Delay{BusinessTime: time.Hour}, uint64(maxBusinessTime / time.Hour)},
	"business minute": {Delay{BusinessTime: time.Minute}, uint64(maxBusinessTime / time.Minute)},
}

// times returns n times a delay without a time of day.
func (d Delay) times(n int) Delay {
	return Delay{
		Duration: time.Duration(n) * d.Duration, Days: n * d.Days, Weeks: n * d.Weeks, Months: n * d.Months,
		BusinessDays: n * d.BusinessDays, BusinessTime: time.Duration(n) * d.BusinessTime,
	}
}

// ParseDelay reads a delay: a duration such as "90m" or "48h", days, weeks or months such as "10d", "2w" or
// "1 month", or business time such as "3 business days", "4 business hours" or "30 business minutes". A
// time of day may follow: "3d at 09:00". It may be a part of another delay: "75% of 8 business hours".
func ParseDelay(text string) (d Delay, err error) {
	span, at, timed := strings.Cut(text, " at ")
	if d, err = parsePart(strings.Join(strings.Fields(span), " ")); err != nil {
		return Delay{}, fmt.Errorf("%q: %w", text, err)
	}
	if d.At = strings.TrimSpace(at); timed {
		if clock, err := parseTimeOfDay(d.At); err != nil || clock == day {
			return Delay{}, fmt.Errorf("%q: want a time of day from 00:00 to 23:59, such as 3d at 09:00", text)
		}
	}
	return d, nil
}

// partOf matches a part of a delay, such as 50% of 4h.
var partOf = regexp.MustCompile(`^([0-9]{1,4}) ?% of (.*)$`)

// maxPercent bounds the part of a delay.
const maxPercent = 1000

// parsePart reads a delay without a time of day, or a part of one: "50% of 4h".
func parsePart(text string) (Delay, error) {
	found := partOf.FindStringSubmatch(text)
	if found == nil {
		return parseSpan(text)
	}
	whole, err := parseSpan(found[2])
	if err != nil {
		return Delay{}, err
	}
	percent, _ := strconv.Atoi(found[1])
	if percent < 1 || percent > maxPercent {
		return Delay{}, fmt.Errorf("must be 1%% to %d%%", maxPercent)
	}
	// Each unit with its number, none of which can wrap.
	for unit, n := range map[string]int{
		"days": whole.Days, "weeks": whole.Weeks, "months": whole.Months, "business days": whole.BusinessDays,
		"seconds": int(whole.Duration / time.Second), "business minutes": int(whole.BusinessTime / time.Minute),
	} {
		if int64(n)*int64(percent)%100 != 0 {
			return Delay{}, fmt.Errorf("it is no whole number of %s: write the delay in a smaller unit, such as 50%% of 24h or "+
				"50%% of 8 business hours", unit)
		}
	}
	part := func(n int) int { return int(int64(n) * int64(percent) / 100) }
	d := Delay{
		Duration: time.Duration(part(int(whole.Duration/time.Second))) * time.Second, Days: part(whole.Days),
		Weeks: part(whole.Weeks), Months: part(whole.Months), BusinessDays: part(whole.BusinessDays),
		BusinessTime: time.Duration(part(int(whole.BusinessTime/time.Minute))) * time.Minute,
	}
	return d, d.bounded()
}

// parseSpan reads a delay without a time of day.
func parseSpan(text string) (Delay, error) {
	number, unit, spelled := strings.Cut(text, " ")
	for suffix, of := range map[string]string{"w": "weeks", "d": "days"} {
		if n, short := strings.CutSuffix(text, suffix); short && n != "0" && digits.MatchString(n) {
			number, unit, spelled = n, of, true
		}
	}
	if !spelled {
		d, err := duration.Parse(text)
		switch {
		case err != nil:
			return Delay{}, errDelay
		case strings.Contains(text, "d") && d > 0:
			return Delay{}, errMixed
		case d%time.Second != 0:
			return Delay{}, errors.New("must be whole seconds")
		}
		return Delay{Duration: d}, Delay{Duration: d}.bounded()
	}
	of, found := units[strings.TrimSuffix(unit, "s")]
	if !found {
		return Delay{}, errDelay
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n < 1 {
		return Delay{}, errors.New("want a whole number of at least 1, such as 3 business days")
	}
	d := of.one.times(int(min(n, of.most+1))) // the product of a larger number could wrap
	return d, d.bounded()
}

// bounded returns an error for a delay that is too long.
func (d Delay) bounded() error {
	switch {
	case d.Duration > maxDuration:
		return fmt.Errorf("must be at most %dd", maxDuration/day)
	case d.Days > maxDays:
		return fmt.Errorf("must be at most %dd", maxDays)
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
	case d.Days != 0:
		return fmt.Sprintf("%dd", d.Days)
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
	case d.Days != 0:
		unit, amount = "days", int64(d.Days)
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
