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
	Page   int                 // rows of a record at most
	Moment func() guard.Moment // returns now, by which a row is judged

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

// Claim is what a Recorder knows of a claim.
type Claim struct {
	*lease.Lease
	Jobs        pq.Int64Array // numbers
	First, Last int64         // ids of its rows

	Closes bool // it is the last of the slot, as far as can be seen
	Done   bool // its last row is recorded
	Leaves bool // rows were left in the slot by decision

	Locked  []row.Outcome  // of rows that another transaction has locked
	Left    map[int64]bool // rows that stay in the slot for the time being though they were read
	Refused int64          // rows that are left because the database records no error for them either

	// part is how many of Locked may be recorded at once, if other transactions hold keys that they
	// ask for. 0: not known.
	part       int
	unreadable []int64 // ids of the rows that cannot be read, in order
}

// Leave takes note of a row that was read and stays in the slot for the time being.
func (c *Claim) Leave(id int64) {
	if c.Left == nil {
		c.Left = map[int64]bool{}
	}
	c.Left[id] = true
}
