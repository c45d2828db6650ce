package output

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/config/duration"
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

// AtLeast is a count that went no further than most, which is a whole number of thousands.
func AtLeast(n, most int64) any {
	if n < most {
		return n
	}
	return fmt.Sprintf("%d,000+", most/1000)
}

// OrNone returns a duration, or "none" for 0.
func OrNone(d time.Duration) any {
	if d == 0 {
		return "none"
	}
	return duration.Text(d)
}
