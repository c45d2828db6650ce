package spoken

import (
	"fmt"
	"iter"
	"time"
)

// fewChecks is how many checks in a row that asked for another one a timeline shows one by one.
const fewChecks = 5

// Stretches yields the first and the last entry of each line of a timeline with n entries. Most lines are
// one entry. If many checks of a row follow each other and did nothing but ask for another, such as those by
// which a rule looks again, they are three lines: the first, all between, and the last. again reports
// whether an entry is such a check, and id is that of its row.
func Stretches(n int, again func(i int) (id int64, again bool)) iter.Seq2[int, int] {
	return func(yield func(first, last int) bool) {
		for i := 0; i < n; {
			end := i // after the checks that begin here
			for id, _ := again(i); end < n; end++ {
				if of, is := again(end); !is || of != id {
					break
				}
			}
			if end-i <= fewChecks {
				end = max(end, i+1)
				for ; i < end; i++ {
					if !yield(i, i) {
						return
					}
				}
				continue
			}
			if !yield(i, i) || !yield(i+1, end-2) || !yield(end-1, end-1) {
				return
			}
			i = end
		}
	}
}

// Again describes checks in a row that asked for another one, of which the last was in a slot.
func Again(checks int, last time.Time) string {
	return fmt.Sprintf("checked %d times more, up to slot %s: each check asked for another", checks, Instant(last))
}
