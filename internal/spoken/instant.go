package spoken

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Instant returns an instant as every text says it, in UTC and to the second: 2026-03-01T13:05:00Z.
// Commands and addresses take this form. The zero time is "-".
func Instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Ago returns how far an instant is from now, such as "6 min ago", "in 9 min" and "now".
func Ago(t, now time.Time) string {
	switch years := t.Year() - now.Year(); {
	case years > maxYears:
		return "in " + Distance(now, t)
	case years < -maxYears:
		return Distance(t, now) + " ago"
	}
	switch d := now.Sub(t); {
	case d >= time.Second:
		return span(d) + " ago"
	case d <= -time.Second:
		return "in " + span(-d)
	}
	return "now"
}

// maxYears is a number of years that a time.Duration can hold.
const maxYears = 290

// Distance returns the time from one instant to a later one, to the second, as Duration writes it. It
// may be longer than a time.Duration can be.
func Distance(from, to time.Time) string {
	if years := to.Year() - from.Year(); years > maxYears {
		return fmt.Sprintf("%d years", years)
	}
	return Duration(to.Sub(from).Round(time.Second))
}

// Since returns an instant with how far it is from now: 2026-03-01T13:05:00Z, 6 min ago.
func Since(t, now time.Time) string { return Instant(t) + ", " + Ago(t, now) }

// span returns a distance in one unit, which it rounds down.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return Duration(d.Truncate(day))
}

// instants are the forms in which people write instants: first those with a zone, and days, which
// begin at midnight UTC.
var instants = []string{
	time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly,
	"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04",
}

// ParseInstant reads an instant as people write it, in UTC. zoned is false if the text has a time
// without a zone, which counts as UTC.
func ParseInstant(text string) (at time.Time, zoned bool, err error) {
	for i, layout := range instants {
		at, err := time.Parse(layout, text)
		parse, _ := errors.AsType[*time.ParseError](err)
		switch {
		case parse != nil && strings.HasSuffix(parse.Message, "out of range"):
			return at, false, errors.New("there is no such time" + parse.Message)
		case err == nil:
			return at.UTC(), i < 3, nil
		}
	}
	return at, false, ErrNoInstant
}

// ErrNoInstant is returned by ParseInstant for a text that is no instant.
var ErrNoInstant = errors.New("want an instant such as 2006-01-02T15:04:05Z or a date such as 2006-01-02")
