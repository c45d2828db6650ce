package spoken

import "fmt"

// Count is a number and the noun that goes with it, such as "1 row" and "2 rows". The noun may have a verb: "row is",
// "rows are".
func Count[N int | int64](n N, one, many string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, one, many))
}

// Noun is one or many, as it goes with a number.
func Noun[N int | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
