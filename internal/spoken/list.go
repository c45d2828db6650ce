package spoken

import (
	"fmt"
	"slices"
	"strings"
)

// most is how many names a List has.
const most = 20

// List names the first of many, and says how many more there are: a job whose name has the number of an order in it is soon ten
// thousand jobs.
func List(names []string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Some returns the names that List has, as a list whose last element says how many more there are.
func Some(names []string) []string {
	if more := len(names) - most; more > 0 {
		return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return names
}
