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

// The longest delays: ten years, as plain time and as working days and hours.
const (
	maxDuration     = 3660 * day
	maxBusinessDays = 2600
	maxBusinessTime = 20_800 * time.Hour
)

var errDelay = errors.New("want a duration such as 90m, 48h or 10d, or a number of business days, hours or minutes, " +
	"such as 3 business days")

// ParseDelay reads a delay: a duration such as "90m", "48h" or "10d", or business time such as
// "3 business days", "4 business hours" or "30 business minutes".
func ParseDelay(text string) (Delay, error) {
	words := strings.Fields(text)
	if len(words) == 1 {
		d, err := duration.Parse(words[0])
		switch {
		case err != nil:
			return Delay{}, fmt.Errorf("%q: %w", text, errDelay)
		case d%time.Second != 0:
			return Delay{}, fmt.Errorf("%q: must be whole seconds", text)
		case d > maxDuration:
			return Delay{}, fmt.Errorf("%q: must be at most %dd", text, maxDuration/day)
		}
		return Delay{Duration: d}, nil
	}
	if len(words) != 3 || words[1] != "business" {
		return Delay{}, fmt.Errorf("%q: %w", text, errDelay)
	}
	n, err := strconv.ParseInt(words[0], 10, 32)
	if err != nil || n < 1 {
		return Delay{}, fmt.Errorf("%q: want a whole number of at least 1, such as 3 business days", text)
	}
	var d Delay
	switch words[2] {
	case "day", "days":
		d.BusinessDays = int(n)
	case "hour", "hours":
		d.BusinessTime = time.Duration(n) * time.Hour
	case "minute", "minutes":
		d.BusinessTime = time.Duration(n) * time.Minute
	default:
		return Delay{}, fmt.Errorf("%q: %w", text, errDelay)
	}
	if d.BusinessDays > maxBusinessDays || d.BusinessTime > maxBusinessTime {
		return Delay{}, fmt.Errorf("%q: must be at most %d business days or %d business hours", text, maxBusinessDays,
			maxBusinessTime/time.Hour)
	}
	return d, nil
}

// Business reports whether a delay needs a calendar.
func (d Delay) Business() bool { return d.BusinessDays != 0 || d.BusinessTime != 0 }

// String writes a delay in the form that ParseDelay reads, such as "48h", "10d" or "3 business days".
func (d Delay) String() string {
	switch {
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
