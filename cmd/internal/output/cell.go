package output

import (
	"cmp"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
)

// Cell is a value as a table shows it: in one line, and never empty, so that columns can be counted.
func Cell(v any) any {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return spoken.Instant(v)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return Cell(*v)
	case duration.Text:
		return spoken.Duration(time.Duration(v))
	case string:
		return cmp.Or(strings.Map(plain.Printable, v), "-")
	}
	return v
}

// OrNone returns a duration, or "none" for 0.
func OrNone(d time.Duration) any {
	if d == 0 {
		return "none"
	}
	return duration.Text(d)
}
