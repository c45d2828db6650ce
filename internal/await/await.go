// Package await waits in tests for what must happen, however busy the machine is.
package await

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// Limit bounds a wait for what must happen. Only a hang reaches it: a machine under load may take
// minutes for what takes an idle one milliseconds.
const Limit = 5 * time.Minute

// pause is between two looks.
const pause = 5 * time.Millisecond

// True waits until shown returns true. The test fails if that takes longer than Limit.
func True(t testing.TB, what string, shown func() bool) {
	t.Helper()
	for deadline := elapsed.Now().Add(Limit); !shown(); time.Sleep(pause) {
		if elapsed.Now().After(deadline) {
			t.Fatalf("waited %s for %s", Limit, what)
		}
	}
}

// Receive waits for a value of a channel, or for its end.
func Receive[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Limit):
		t.Fatalf("waited %s for %s", Limit, what)
	}
	return value
}
