package slots

import (
	"sync/atomic"

	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/turn"
)

// load is turn.Load, counted by the goroutines of a run.
type load struct {
	size, fits, queued, kept, parked atomic.Int64
}

func (l *load) now() turn.Load {
	return turn.Load{
		Size: l.size.Load(), Fits: l.fits.Load(), Queued: l.queued.Load(), Kept: l.kept.Load(), Parked: l.parked.Load(),
	}
}

// memory is turn.Memory, counted by the goroutines of a run.
type memory struct {
	rows, bytes, held, taken atomic.Int64
}

func (m *memory) now() turn.Memory {
	return turn.Memory{Rows: m.rows.Load(), Bytes: m.bytes.Load(), Held: m.held.Load(), Taken: m.taken.Load()}
}

// account counts the rows of a claim in the load of its lane and in the memory of the run. The goroutine of the claim
// uses it; started is for others, too.
type account struct {
	*load // of the lane that counts its rows

	own     bool // the lane has a limit of its own, which also bounds what it keeps in memory
	memory  *memory
	changed func() // wakes the run: there may be room for more rows

	waiting atomic.Int64 // rows that have not started
	here    footprint    // in memory
	waits   waits
}

// footprint is the memory of a claim's rows.
type footprint struct{ rows, bytes int64 }

// waits is about how many bytes the rows of a claim take that wait.
type waits struct {
	locked int64 // for other transactions
	parked int64 // for a place
}

// enqueue counts rows that wait to start.
func (a *account) enqueue(rows int64) {
	a.waiting.Add(rows)
	n, half := a.queued.Add(rows), a.size.Load()/2
	if n <= half && n-rows > half {
		a.changed()
	}
}

// started counts rows that wait no more.
func (a *account) started(rows int64) { a.enqueue(-min(rows, a.waiting.Load())) }

// took counts rows that were read. One read takes up to row.AtOnce bytes.
func (a *account) took(rows, bytes int64) {
	if rows > 0 {
		a.fits.Store(max(1, row.AtOnce*rows/bytes))
	}
	a.memory.taken.Add(rows)
	a.keep(rows, bytes)
	a.enqueue(rows - a.waiting.Load())
}

// keep counts rows in memory, until land.
func (a *account) keep(rows, bytes int64) {
	a.here.rows, a.here.bytes = a.here.rows+rows, a.here.bytes+bytes
	a.kept.Add(rows)
	m := a.memory
	if !a.own {
		m.rows.Add(rows)
	}
	m.bytes.Add(bytes)
}

// land counts rows that are done, or that wait outside of the bounds on the run's work.
func (a *account) land(rows int64) {
	if rows = min(rows, a.here.rows); rows > 0 {
		a.keep(-rows, -a.here.bytes*rows/a.here.rows)
		a.changed()
	}
}

// landAll is land for all rows of the claim.
func (a *account) landAll() { a.land(a.here.rows) }

// hold counts the rows of the claim that wait.
func (a *account) hold(now waits) {
	was, m := a.waits, a.memory
	a.waits = now
	m.held.Add(now.locked - was.locked)
	a.parked.Add(now.parked - was.parked)
	if now.locked < was.locked || now.parked < was.parked {
		a.changed()
	}
}

// holdLocked counts more rows that wait for other transactions.
func (a *account) holdLocked(bytes int64) {
	a.hold(waits{a.waits.locked + bytes, a.waits.parked})
}

// close removes the rows of the claim from all counts.
func (a *account) close() {
	a.landAll()
	a.hold(waits{})
	a.enqueue(-a.waiting.Load())
}

// isFull reports whether the run may keep no more rows that wait, of the lane or of all.
func (a *account) isFull() bool {
	m, l := a.memory.now(), a.now()
	return m.Full() || l.Full()
}
