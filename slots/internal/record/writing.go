package record

import (
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

const (
	// slowWrite is how long a record may take before the next ones get smaller, down to minWrite rows.
	// So a loaded server holds locks only briefly.
	slowWrite = 500 * time.Millisecond
	minWrite  = 20
	// waryFor is how long a run looks for locked rows first, after a record has timed out on a lock.
	waryFor = 5 * time.Second
)

// writing bounds the size and the number of records, and decides whether they look for locks first. It
// is safe for concurrent use.
type writing struct {
	writers  chan struct{} // concurrent records
	patience chan struct{} // concurrent long waits for a lock

	page int64        // bounds the rows of a record
	rows atomic.Int64 // bounds the rows of the next record
	// wary is the local monotonic instant until which records look for locked rows first. Nil: they do not.
	wary atomic.Pointer[time.Time]
}

func newWriting(page int) *writing {
	w := &writing{writers: make(chan struct{}, 2), patience: make(chan struct{}, 1), page: int64(page)}
	w.rows.Store(w.page)
	return w
}

// size returns how many rows the next record may have.
func (w *writing) size() int { return int(w.rows.Load()) }

// adapt halves the size of records if one was slow, and doubles it, up to a page, if it was quick.
func (w *writing) adapt(took time.Duration) {
	switch n := w.rows.Load(); {
	case took > slowWrite:
		w.rows.Store(max(n/2, min(minWrite, w.page)))
	case took < slowWrite/4:
		w.rows.Store(min(2*n, w.page))
	}
}

// beWary makes records look for locked rows first, for waryFor.
func (w *writing) beWary() { w.wary.Store(new(elapsed.Now().Add(waryFor))) }

func (w *writing) isWary() bool {
	until := w.wary.Load()
	return until != nil && elapsed.Now().Before(*until)
}
