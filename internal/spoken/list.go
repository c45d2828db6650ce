package spoken

import (
	"fmt"
	"slices"
	"strings"
)

// most bounds the names in a List.
const most = 20

// List returns the first names, and how many more there are. A job whose name contains the number
// of an order soon becomes ten thousand jobs.
func List(names []string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Some returns the names of List as a list. Its last element says how many more there are.
func Some(names []string) []string {
	if more := len(names) - most; more > 0 {
		return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return names
}
