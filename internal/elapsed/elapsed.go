// Package elapsed measures durations, and waits. The time of day comes from the database, or from slots.Config.Now.
package elapsed

import (
	"context"
	"time"
)

// Now returns an instant of the local monotonic clock.
func Now() time.Time { return time.Now() } //nolint:forbidigo // it measures

// Sleep waits. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
