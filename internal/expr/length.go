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
	word := "after "
	if l.Months <= 0 && l.Days <= 0 && l.Time <= 0 && l != (Length{}) {
		word, l = "before ", Length{-l.Months, -l.Days, -l.Time}
	}
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
	return word + strings.Join(parts, " ")
}

// LengthsSQL returns the SQL of the lengths of all steps, which Lengths reads: an array with the months, days and
// microseconds of each. The elements of a constant delay, and of one that is null or infinite, are null.
func (f Facts) LengthsSQL() string {
	if len(f.After) == 0 {
		return "null::bigint[]"
	}
	var parts, lengths []string
	for i, e := range f.After {
		if e.SQL == "" {
			parts = append(parts, "null, null, null")
			continue
		}
		lengths = append(lengths, fmt.Sprintf("(%s) as l%d", e.SQL, i+1))
		parts = append(parts, strings.ReplaceAll(
			"case when isfinite({l}) then extract(year from {l}) * 12 + extract(month from {l}) end, "+
				"case when isfinite({l}) then extract(day from {l}) end, "+
				"case when isfinite({l}) then extract(hour from {l}) * 3600000000 + extract(minute from {l}) * 60000000 + "+
				"extract(microseconds from {l}) end",
			"{l}", fmt.Sprintf("l%d", i+1)))
	}
	// Offset 0 lets the server compute each length once.
	return fmt.Sprintf("(select array[%s]::bigint[] from (select %s offset 0) as prescient_l)", strings.Join(parts, ", "),
		strings.Join(lengths, ", "))
}

// maxTime bounds the Time of a Length, in microseconds: 292 years. A product of more would wrap.
const maxTime = math.MaxInt64 / int64(time.Microsecond)

// Lengths returns the lengths of the steps from the array of LengthsSQL. Nil: the delay of the step is constant, or
// stands for never, because it is null, infinite or has more than 292 years in hours and shorter units.
func Lengths(array []sql.NullInt64) (list []*Length) {
	for i := 0; i+2 < len(array); i += 3 {
		micros := array[i+2].Int64
		if !array[i].Valid || micros > maxTime || micros < -maxTime {
			list = append(list, nil)
			continue
		}
		list = append(list, &Length{
			Months: int(array[i].Int64), Days: int(array[i+1].Int64), Time: time.Duration(micros) * time.Microsecond,
		})
	}
	return list
}
