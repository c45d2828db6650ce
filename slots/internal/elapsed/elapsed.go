// Package elapsed has the clock that measures durations. It never gives the time of day: the database does, or
// slots.Config.Now.
package elapsed

import "time"

// Now returns an instant of the local monotonic clock.
func Now() time.Time { return time.Now() } //nolint:forbidigo // it measures
