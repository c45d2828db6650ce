// Package claim takes part in a slot for a run: it opens the slot, claims its rows under leases or takes them over from
// dead runners, reads them within bounds, and closes the slot. It knows no functions and no outcomes.
package claim

import (
	"slices"

	"github.com/lib/pq"
)

// Claim is a right to rows of the slot, and what has become of them. The goroutine that works on the claim changes it.
type Claim struct {
	*Lease
	Jobs        pq.Int64Array // numbers
	First, Last int64         // ids of its rows
	Rows        int64         // how many there are; 0: not known

	Done    bool  // its last row is recorded
	Skipped bool  // the run has skipped rows: they stay in the slot
	Refused int64 // rows that are left because the database records no error for them either
	// TryTogether is how many outcomes to try to record together while other transactions hold keys that some of them
	// enqueue. 0: not known.
	TryTogether int

	postponed  map[int64]bool // rows that were read and stay in the slot for now
	unreadable []int64        // ids of the rows that cannot be read, in order
}

// Postpone marks a row that was read and stays in the slot for now.
func (c *Claim) Postpone(id int64) {
	if c.postponed == nil {
		c.postponed = map[int64]bool{}
	}
	c.postponed[id] = true
}

// SkipUnreadable leaves a row out of what is read, because the server cannot read it.
func (c *Claim) SkipUnreadable(id int64) {
	c.unreadable = append(c.unreadable, id)
	slices.Sort(c.unreadable)
}

// IsUnreadable reports whether a row is left out of what is read.
func (c *Claim) IsUnreadable(id int64) bool {
	_, found := slices.BinarySearch(c.unreadable, id)
	return found
}

// readable returns the ranges of ids between the rows that cannot be read.
func (c *Claim) readable() (ranges [][2]int64) {
	first := c.First
	for _, id := range c.unreadable {
		if first < id {
			ranges = append(ranges, [2]int64{first, id - 1})
		}
		first = id + 1
	}
	if first <= c.Last {
		ranges = append(ranges, [2]int64{first, c.Last})
	}
	return ranges
}
