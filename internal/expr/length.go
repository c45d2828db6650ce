package expr

import (
	"database/sql"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Length is the value of an interval. Months and days count by the clocks of a zone, and Time after them.
type Length struct {
	Months, Days int
	Time         time.Duration
}

// String writes a length such as "after 1 month 3 days 2h" or "before 3 days".
func (l Length) String() string {
	if l.Months <= 0 && l.Days <= 0 && l.Time <= 0 && l != (Length{}) {
		return "before " + Length{-l.Months, -l.Days, -l.Time}.Span()
	}
	return "after " + l.Span()
}

// Span writes a length such as "1 month 3 days 2h".
func (l Length) Span() string {
	var parts []string
	if l.Months != 0 {
		parts = append(parts, spoken.Count(l.Months, "month", "months"))
	}
	if l.Days != 0 {
		parts = append(parts, spoken.Count(l.Days, "day", "days"))
	}
	if l.Time != 0 || len(parts) == 0 {
		parts = append(parts, spoken.Exact(l.Time))
	}
	return strings.Join(parts, " ")
}

// Held has the values of a step that the data of a row hold.
type Held struct {
	// After and Every are the lengths of Facts.After and Facts.Every. Nil: the step has none, or it stands for never.
	After, Every *Length
	// Times is the number of Facts.Times. Nil: the step has none, or it is null.
	Times *int64
}

// held is how many elements a step has in the array of HeldSQL.
const held = 7

// HeldSQL returns the SQL of what the data hold of all steps, which ReadHeld reads: an array with the months, days and
// microseconds of the delay of each, the same of its repetitions, and their number. The elements of a constant, and of
// a value that is null or infinite, are null.
func (f Facts) HeldSQL() string {
	if len(f.After)+len(f.Every)+len(f.Times) == 0 {
		return "null::bigint[]"
	}
	const length = "case when isfinite({l}) then extract(year from {l}) * 12 + extract(month from {l}) end, " +
		"case when isfinite({l}) then extract(day from {l}) end, " +
		"case when isfinite({l}) then extract(hour from {l}) * 3600000000 + extract(minute from {l}) * 60000000 + " +
		"extract(microseconds from {l}) end"
	var parts, values []string
	add := func(list []Expr, i int, part, none string) {
		if i >= len(list) || list[i].SQL == "" {
			parts = append(parts, none)
			return
		}
		name := fmt.Sprintf("v%d", len(values)+1)
		values = append(values, fmt.Sprintf("(%s) as %s", list[i].SQL, name))
		parts = append(parts, strings.ReplaceAll(part, "{l}", name))
	}
	for i := range max(len(f.After), len(f.Every), len(f.Times)) {
		add(f.After, i, length, "null, null, null")
		add(f.Every, i, length, "null, null, null")
		add(f.Times, i, "{l}", "null")
	}
	// Offset 0 lets the server compute each value once.
	return fmt.Sprintf("(select array[%s]::bigint[] from (select %s offset 0) as prescient_l)", strings.Join(parts, ", "),
		strings.Join(values, ", "))
}

// maxTime bounds the Time of a Length, in microseconds: 292 years. A product of more would wrap.
const maxTime = math.MaxInt64 / int64(time.Microsecond)

// ReadHeld returns what the data hold of the steps, from the array of HeldSQL. Empty: they hold nothing of any.
func ReadHeld(array []sql.NullInt64) (list []Held) {
	for i := 0; i+held <= len(array); i += held {
		h := Held{After: length(array[i:]), Every: length(array[i+3:])}
		if times := array[i+held-1]; times.Valid {
			h.Times = &times.Int64
		}
		list = append(list, h)
	}
	return list
}

// length returns the length of three elements. Nil: it stands for never, because it is null, infinite or has more than
// 292 years in hours and shorter units.
func length(array []sql.NullInt64) *Length {
	micros := array[2].Int64
	if !array[0].Valid || micros > maxTime || micros < -maxTime {
		return nil
	}
	return &Length{
		Months: int(array[0].Int64), Days: int(array[1].Int64), Time: time.Duration(micros) * time.Microsecond,
	}
}
