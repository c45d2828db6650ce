// Package statement turns outcomes into the statements that record them. It sends nothing, and it
// knows a claim by its token alone.
package statement

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/server"
)

// Writer writes the statements that record the outcomes of a run. It is safe for concurrent use, as
// long as its exported fields do not change.
type Writer struct {
	Server   *server.Server
	Slot     time.Time
	Runner   string                     // its name
	Now      func() time.Time           // the clock that slots are compared with
	Replayed bool                       // Now is not the clock of the database
	Jobs     map[int64]*jobs.Definition // of the slot, by number

	// Place is the number of the runner among those of the slot. Traces name the runner by it.
	Place int

	parts atomic.Int64
}

// NextPart returns a number for what is recorded next; see prescient.fence.
func (w *Writer) NextPart() int64 { return w.parts.Add(1) }

// Clock returns the parameter by which statements learn of a replayed clock. Nil: the clock of the
// database counts.
func (w *Writer) Clock() any {
	if w.Replayed {
		return w.Now()
	}
	return nil
}

// Names returns the names of jobs of the slot.
func (w *Writer) Names(numbers []int64) (names []string) {
	for _, number := range numbers {
		names = append(names, w.Jobs[number].Name)
	}
	return names
}

// Forget and FreeLocks clean up what a check has left in a session of the runner's own pool, before the
// record and before the next check. Temporary tables would hide tables of the same names, and nothing
// else would release the locks.
const (
	Forget    = "reset session authorization; reset role; reset all; close all; discard temp; unlisten *"
	FreeLocks = "select pg_catalog.pg_advisory_unlock_all()"
)

// NameSession names the session, so that prescient.terminate_sessions finds it once the lease has
// ended.
func NameSession(token int64) string {
	return "set local application_name = " + pq.QuoteLiteral(session(token))
}

// OfRow lists the settings that begin_check and record_row make themselves.
func OfRow(token int64, lock, idle time.Duration) []any {
	return []any{session(token), server.Millis(lock), server.Millis(idle)}
}

func session(token int64) string { return "prescient claim " + strconv.FormatInt(token, 10) }
