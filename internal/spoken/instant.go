package spoken

import (
	"fmt"
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
	switch d := now.Sub(t); {
	case d >= time.Second:
		return span(d) + " ago"
	case d <= -time.Second:
		return "in " + span(-d)
	}
	return "now"
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
