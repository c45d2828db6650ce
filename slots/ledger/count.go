package ledger

import (
	"strconv"

	"github.com/prescient-go/prescient/internal/spoken"
)

// Count is a number of rows that were counted. Counting must not cost as much as running, so it stops at a limit.
type Count struct {
	N int64
	// AtLeast says that counting stopped: there are N or more.
	AtLeast bool
}

// Plus returns the sum of two counts.
func (c Count) Plus(other Count) Count { return Count{c.N + other.N, c.AtLeast || other.AtLeast} }

// String returns the number as tables print it: "7", or "10,000+" if counting stopped.
func (c Count) String() string {
	if c.AtLeast {
		return spoken.Number(c.N) + "+"
	}
	return strconv.FormatInt(c.N, 10)
}

// Of returns the number with a noun as findings say it: "1 row", "7 rows", or "more than 10,000 rows".
func (c Count) Of(one, many string) string {
	if c.AtLeast {
		return "more than " + spoken.Number(c.N) + " " + many
	}
	return spoken.Count(c.N, one, many)
}
