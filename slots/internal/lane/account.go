package lane

import (
	"sync/atomic"

	"github.com/prescient-go/prescient/slots/internal/row"
)

// Account counts the rows of a claim in the load of its lane and in the memory of the run. The goroutine of the claim
// uses it; other goroutines may call Started.
type Account struct {
	lane    *Lane  // which counts the rows
	changed func() // wakes the run: there may be room for more rows

	unstarted   atomic.Int64 // rows
	rows, bytes int64        // in memory
	locked      int64        // about the bytes of the rows that wait for other transactions
	parked      int64        // about the bytes of those that wait for a permit
}

// NewAccount returns the account of a claim of rows, which count to the lane. changed wakes the run.
func (l *Lane) NewAccount(rows int64, changed func()) *Account {
	a := &Account{lane: l, changed: changed}
	a.countUnstarted(rows)
	return a
}

// countUnstarted counts rows that wait to start. It wakes the run if that makes room, or if none waits any more.
func (a *Account) countUnstarted(rows int64) {
	a.unstarted.Add(rows)
	n, half := a.lane.load.unstarted.Add(rows), a.lane.load.size.Load()/2
	if n <= half && n-rows > half || n == 0 && rows < 0 {
		a.changed()
	}
}

// Unstarted returns how many rows wait to start.
func (a *Account) Unstarted() int64 { return a.unstarted.Load() }

// Started counts rows whose check begins.
func (a *Account) Started(rows int64) { a.countUnstarted(-min(rows, a.unstarted.Load())) }

// Read counts rows that were read. One read takes up to row.AtOnce bytes.
func (a *Account) Read(rows, bytes int64) {
	if rows > 0 {
		a.lane.load.fits.Store(max(1, row.AtOnce*rows/bytes))
	}
	a.lane.lanes.taken.Add(rows)
	a.keep(rows, bytes)
	a.countUnstarted(rows - a.unstarted.Load())
}

// keep counts rows in memory, until Release.
func (a *Account) keep(rows, bytes int64) {
	a.rows, a.bytes = a.rows+rows, a.bytes+bytes
	a.lane.load.kept.Add(rows)
	if !a.lane.Own {
		a.lane.lanes.memory.rows.Add(rows)
	}
	a.lane.lanes.memory.bytes.Add(bytes)
}

// Release counts rows that are done, or that wait without a permit or a worker.
func (a *Account) Release(rows int64) {
	if rows = min(rows, a.rows); rows > 0 {
		a.keep(-rows, -a.bytes*rows/a.rows)
		a.changed()
	}
}

// ReleaseAll is Release for all rows of the claim.
func (a *Account) ReleaseAll() { a.Release(a.rows) }

// CountWaiting counts the rows of the claim that wait, by their bytes: for other transactions, and for a permit.
func (a *Account) CountWaiting(locked, parked int64) {
	less := locked < a.locked || parked < a.parked
	a.lane.lanes.memory.locked.Add(locked - a.locked)
	a.lane.load.parked.Add(parked - a.parked)
	if a.locked, a.parked = locked, parked; less {
		a.changed()
	}
}

// AddLocked counts more rows that wait for other transactions.
func (a *Account) AddLocked(bytes int64) { a.CountWaiting(a.locked+bytes, a.parked) }

// Close removes the rows of the claim from all counts.
func (a *Account) Close() {
	a.ReleaseAll()
	a.CountWaiting(0, 0)
	a.countUnstarted(-a.unstarted.Load())
}

// IsFull reports whether the run may keep no more rows that wait, of the lane or of all.
func (a *Account) IsFull() bool { return a.lane.lanes.memory.isFull() || a.lane.load.isFull() }
