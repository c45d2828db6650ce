// Package elapsed has the clock that measures. It never says what time it is: that is the database's to say, or
// slots.Config.Now's.
package elapsed

import "time"

// Now returns an instant of the local monotonic clock.
var Now = time.Now //nolint:forbidigo // measures
