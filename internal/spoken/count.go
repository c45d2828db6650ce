package spoken

import (
	"fmt"
	"strconv"
)

// Count returns a number with its noun, such as "1 row" and "2 rows". The noun may include a verb:
// "row is", "rows are".
func Count[N int | int64](n N, one, many string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, one, many))
}

// Noun returns one or many, whichever goes with the number.
func Noun[N int | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Number returns a number with a comma after each three digits.
func Number(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
