package record

import (
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

const (
	// slowWrite is what a record takes at the most before the next ones are made smaller, down to
	// minWrite rows, so that the locks on a server under pressure are short.
	slowWrite = 500 * time.Millisecond
	minWrite  = 20
	// waryFor is how long a run looks first what is locked, once it has waited in vain for a lock.
	waryFor = 5 * time.Second
)

// writing is how a run records: what it records at once, and how it heeds the locks of other
// transactions. It is safe for concurrent use.
type writing struct {
	writers  chan struct{} // records at once
	patience chan struct{} // waits for a lock that is never free when the run looks

	page int64                     // rows of a record at most
	rows atomic.Int64              // rows of the next record at most
	wary atomic.Pointer[time.Time] // local monotonic instant until which records look first what is locked; nil: they do not
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

// beWary makes records look first what is locked, for a while.
func (w *writing) beWary() { w.wary.Store(new(elapsed.Now().Add(waryFor))) }

func (w *writing) isWary() bool {
	until := w.wary.Load()
	return until != nil && elapsed.Now().Before(*until)
}
