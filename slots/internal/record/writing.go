package record

import (
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

const (
	// slowWrite is how long a record may take before the next ones get smaller, down to minWrite rows.
	// So a loaded server holds locks only briefly.
	slowWrite = 500 * time.Millisecond
	minWrite  = 20
	// waryFor is how long a run looks for locked rows first, after a record has timed out on a lock.
	waryFor = 5 * time.Second
)

// Writing bounds the size and the number of the records of one or several runs, and decides whether they look for locks
// first. It is safe for concurrent use.
type Writing struct {
	writers  chan struct{} // concurrent records
	patience chan struct{} // concurrent long waits for a lock

	page int64        // bounds the rows of a record
	rows atomic.Int64 // bounds the rows of the next record
	// wary is the local monotonic instant until which records look for locked rows first. Nil: they do not.
	wary atomic.Pointer[time.Time]
}

// NewWriting returns a Writing of records of up to page rows.
func NewWriting(page int) *Writing {
	w := &Writing{writers: make(chan struct{}, 2), patience: make(chan struct{}, 1), page: int64(page)}
	w.rows.Store(w.page)
	return w
}

// size returns how many rows the next record may have.
func (w *Writing) size() int { return int(w.rows.Load()) }

// adapt halves the size of records if one was slow, and doubles it, up to a page, if it was quick.
func (w *Writing) adapt(took time.Duration) {
	switch n := w.rows.Load(); {
	case took > slowWrite:
		w.rows.Store(max(n/2, min(minWrite, w.page)))
	case took < slowWrite/4:
		w.rows.Store(min(2*n, w.page))
	}
}

// beWary makes records look for locked rows first, for waryFor.
func (w *Writing) beWary() { w.wary.Store(new(elapsed.Now().Add(waryFor))) }

func (w *Writing) isWary() bool {
	until := w.wary.Load()
	return until != nil && elapsed.Now().Before(*until)
}
