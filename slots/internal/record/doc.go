// Package record records the outcomes of a run, in one message to the server that ends with the
// fence. It finds out what became of a record whose reply was lost, records rows later that other
// transactions have locked, and isolates the rows that the database refuses. It knows no functions
// and no turns.
package record

import (
	"sync/atomic"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/statement"
)

// Recorder records the outcomes of a run. Its methods are safe for concurrent use, but one
// goroutine at a time records for a claim. The context of a method is that of its statements.
type Recorder struct {
	*statement.Writer
	Options

	writing *writing
	closed  atomic.Bool
}

// Options of a Recorder.
type Options struct {
	Leases *lease.Keeper       // drops the lease of a claim that the fence does not find
	Page   int                 // bounds the rows of a record
	Moment func() guard.Moment // returns the current moment, by which rows are judged

	// Count is called with what was recorded, and with the outcomes.
	Count func(n row.Tally, recorded []row.Outcome)
	// CountRefused is called for each row that is left in its slot, because the database records no error
	// for it either.
	CountRefused func(why error)
}

// New returns a Recorder that records by the statements of w.
func New(w *statement.Writer, o Options) *Recorder {
	return &Recorder{Writer: w, Options: o, writing: newWriting(o.Page)}
}

// HasClosed reports whether a record has closed the slot.
func (r *Recorder) HasClosed() bool { return r.closed.Load() }

// Claim is a claim as a Recorder sees it.
type Claim struct {
	*lease.Lease
	Jobs        pq.Int64Array // numbers
	First, Last int64         // ids of its rows

	Closes bool // as far as the run can see, it is the last of the slot
	Done   bool // its last row is recorded
	Leaves bool // rows were left in the slot by decision

	Locked  []row.Outcome  // outcomes of rows that another transaction has locked
	Left    map[int64]bool // rows that were read and stay in the slot for now
	Refused int64          // rows that are left because the database records no error for them either

	// part is how many of Locked to record together while other transactions hold keys that they
	// enqueue. 0: not known.
	part       int
	unreadable []int64 // ids of the rows that cannot be read, in order
}

// Leave marks a row that was read and stays in the slot for now.
func (c *Claim) Leave(id int64) {
	if c.Left == nil {
		c.Left = map[int64]bool{}
	}
	c.Left[id] = true
}
