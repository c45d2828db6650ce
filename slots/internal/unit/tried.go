package unit

import (
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// Tried notes the problems of earlier calls of a unit in transactions.
type Tried struct {
	Unanswered *row.Sent // a record without a reply; nil: there was none

	canceled   bool      // a statement of the function was cancelled
	breaks     int       // broken connections after a call of the function
	conflicted time.Time // when the server first ended its transaction in favour of another
}

// CanceledOnce notes that a statement of the function was cancelled, and reports whether it is the
// first time, also for the call that the unit is a part of. The server reports a lock timeout as a
// cancellation if it grants the lock just then and the statement waits for another lock. A statement
// that was cancelled for a reason will be cancelled again.
func (t *Tried) CanceledOnce() bool {
	first := !t.canceled
	t.canceled = true
	return first
}

// ConflictsFor notes that the server has ended the transaction in favour of another, and reports whether it has done so
// for longer than a lease: then repeating does not help.
func (t *Tried) ConflictsFor(lease time.Duration) bool {
	if t.conflicted.IsZero() {
		t.conflicted = elapsed.Now()
	}
	return time.Since(t.conflicted) > lease
}

// Broke notes that the connection broke after a call of the function, and returns how often it has. The function may
// break it itself, for example by a statement that the driver does not know.
func (t *Tried) Broke() int {
	t.breaks++
	return t.breaks
}
