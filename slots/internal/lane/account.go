package lane

import (
	"sync/atomic"

	"github.com/prescient-go/prescient/slots/internal/row"
)

// Account counts the rows of a claim in the load of its lane and in the memory of the run. The goroutine of the claim
// uses it; other goroutines may call Started.
type Account struct {
	lane    *Lane // which counts the rows
	memory  *memory
	taken   *atomic.Int64 // rows of the run
	changed func()        // wakes the run: there may be room for more rows

	unstarted atomic.Int64 // rows
	here      footprint    // in memory
	waits     waits
}

// NewAccount returns the account of a claim of rows, which count to a lane. changed wakes the run.
func (s *Lanes) NewAccount(l *Lane, rows int64, changed func()) *Account {
	a := &Account{lane: l, memory: s.memory, taken: &s.taken, changed: changed}
	a.await(rows)
	return a
}

// footprint is the memory of a claim's rows.
type footprint struct{ rows, bytes int64 }

// waits is about how many bytes the rows of a claim take that wait.
type waits struct {
	locked int64 // for other transactions
	parked int64 // for a permit
}

// await counts rows that wait to start. It wakes the run if that makes room, or if none waits any more.
func (a *Account) await(rows int64) {
	a.unstarted.Add(rows)
	n, half := a.lane.Load.Queued.Add(rows), a.lane.Load.Size.Load()/2
	if n <= half && n-rows > half || n == 0 && rows < 0 {
		a.changed()
	}
}

// Unstarted returns how many rows wait to start.
func (a *Account) Unstarted() int64 { return a.unstarted.Load() }

// Started counts rows whose check begins.
func (a *Account) Started(rows int64) { a.await(-min(rows, a.unstarted.Load())) }

// Read counts rows that were read. One read takes up to row.AtOnce bytes.
func (a *Account) Read(rows, bytes int64) {
	if rows > 0 {
		a.lane.Load.Fits.Store(max(1, row.AtOnce*rows/bytes))
	}
	a.taken.Add(rows)
	a.keep(rows, bytes)
	a.await(rows - a.unstarted.Load())
}

// keep counts rows in memory, until Release.
func (a *Account) keep(rows, bytes int64) {
	a.here.rows, a.here.bytes = a.here.rows+rows, a.here.bytes+bytes
	a.lane.Load.Kept.Add(rows)
	if !a.lane.Own {
		a.memory.rows.Add(rows)
	}
	a.memory.bytes.Add(bytes)
}

// Release counts rows that are done, or that wait without a permit or a worker.
func (a *Account) Release(rows int64) {
	if rows = min(rows, a.here.rows); rows > 0 {
		a.keep(-rows, -a.here.bytes*rows/a.here.rows)
		a.changed()
	}
}

// ReleaseAll is Release for all rows of the claim.
func (a *Account) ReleaseAll() { a.Release(a.here.rows) }

// CountWaiting counts the rows of the claim that wait, by their bytes: for other transactions, and for a permit.
func (a *Account) CountWaiting(locked, parked int64) {
	was, now := a.waits, waits{locked, parked}
	a.waits = now
	a.memory.locked.Add(now.locked - was.locked)
	a.lane.Load.Parked.Add(now.parked - was.parked)
	if now.locked < was.locked || now.parked < was.parked {
		a.changed()
	}
}

// AddLocked counts more rows that wait for other transactions.
func (a *Account) AddLocked(bytes int64) { a.CountWaiting(a.waits.locked+bytes, a.waits.parked) }

// Close removes the rows of the claim from all counts.
func (a *Account) Close() {
	a.ReleaseAll()
	a.CountWaiting(0, 0)
	a.await(-a.unstarted.Load())
}

// IsFull reports whether the run may keep no more rows that wait, of the lane or of all.
func (a *Account) IsFull() bool { return a.memory.isFull() || a.lane.Load.IsFull() }
