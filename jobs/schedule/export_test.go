package schedule

import "time"

// Hold sets how long the statements of a row may take together, and how long a call collects events.
func (to *PublishConfig) Hold(d time.Duration) { to.held = d }
