// Package elapsed has the clock that measures durations. The time of day comes from the database, or from
// slots.Config.Now.
package elapsed

import "time"

// Now returns an instant of the local monotonic clock.
func Now() time.Time { return time.Now() } //nolint:forbidigo // it measures
