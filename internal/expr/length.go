package expr

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"
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
	// Calendar is the name of Facts.Calendar, in the same way. Timezone is that of Facts.Timezone: the first step has it.
	Calendar, Timezone *string
}

// held is how many elements a step has in the array of HeldSQL.
const held = 9

// HeldSQL returns the SQL of what the data hold of all steps, which ReadHeld reads: an array with the months, days and
// microseconds of the delay of each, the same of its repetitions, their number, and the names of the calendar and of
// the zone. The elements of a constant, and of a value that is null or infinite, are null.
func (f Facts) HeldSQL() string {
	n := max(len(f.After), len(f.Every), len(f.Times), len(f.Calendar))
	if f.Timezone.SQL != "" {
		n = max(n, 1)
	}
	if n == 0 {
		return "null::text[]"
	}
	part := func(value string) string {
		return "(case when isfinite({l}) then " + value + " end)::bigint::text"
	}
	length := part("extract(year from {l}) * 12 + extract(month from {l})") + ", " + part("extract(day from {l})") + ", " +
		part("extract(hour from {l}) * 3600000000 + extract(minute from {l}) * 60000000 + extract(microseconds from {l})")
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
	for i := range n {
		add(f.After, i, length, "null, null, null")
		add(f.Every, i, length, "null, null, null")
		add(f.Times, i, "{l}::text", "null")
		add(f.Calendar, i, "{l}::text", "null")
		add([]Expr{f.Timezone}, i, "{l}::text", "null")
	}
	// Offset 0 lets the server compute each value once.
	return fmt.Sprintf("(select array[%s]::text[] from (select %s offset 0) as prescient_l)", strings.Join(parts, ", "),
		strings.Join(values, ", "))
}

// maxTime bounds the Time of a Length, in microseconds: 292 years. A product of more would wrap.
const maxTime = math.MaxInt64 / int64(time.Microsecond)

// ReadHeld returns what the data hold of the steps, from the array of HeldSQL. Empty: they hold nothing of any.
func ReadHeld(array []sql.NullString) (list []Held) {
	text := func(value sql.NullString) *string {
		if !value.Valid {
			return nil
		}
		return &value.String
	}
	for i := 0; i+held <= len(array); i += held {
		h := Held{After: length(array[i:]), Every: length(array[i+3:])}
		if array[i+6].Valid {
			h.Times = new(number(array[i+6]))
		}
		h.Calendar, h.Timezone = text(array[i+7]), text(array[i+8])
		list = append(list, h)
	}
	return list
}

// number returns the value of an element with a whole number.
func number(element sql.NullString) int64 {
	n, _ := strconv.ParseInt(element.String, 10, 64) // of a bigint
	return n
}

// length returns the length of three elements. Nil: it stands for never, because it is null, infinite or has more than
// 292 years in hours and shorter units.
func length(array []sql.NullString) *Length {
	micros := number(array[2])
	if !array[0].Valid || micros > maxTime || micros < -maxTime {
		return nil
	}
	return &Length{
		Months: int(number(array[0])), Days: int(number(array[1])), Time: time.Duration(micros) * time.Microsecond,
	}
}
