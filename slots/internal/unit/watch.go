package unit

import (
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// Watch follows a call: it begins, its function starts, and it ends or is abandoned. The goroutine of
// the call calls all methods but Abandon. The zero value is for a call that has not begun.
type Watch struct {
	mu    sync.Mutex
	began time.Time // local monotonic instant
	open  bool      // neither ended nor abandoned
	safe  bool      // the engine works for the call, not the function: it must not be abandoned
}

// Begin begins the call, before its function starts.
func (w *Watch) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.open, w.safe = elapsed.Now(), true, true
}

// Start notes that the function starts. The time of the call counts from here.
func (w *Watch) Start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.safe = elapsed.Now(), false
}

// Began returns the local monotonic instant at which the function started, or the call began.
func (w *Watch) Began() time.Time { return w.began }

// Reserve keeps the call from being abandoned until its end. It returns false if the call was abandoned before.
func (w *Watch) Reserve() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.safe = w.open
	return w.open
}

// End ends the call. It returns false if the call was abandoned before.
func (w *Watch) End() bool { return w.close(0, false) }

// Abandon ends the call for a function that started longer ago than most. It reports whether it did.
func (w *Watch) Abandon(most time.Duration) bool { return w.close(most, true) }

func (w *Watch) close(most time.Duration, overdue bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open || overdue && (w.safe || time.Since(w.began) <= most) {
		return false
	}
	w.open = false
	return true
}
