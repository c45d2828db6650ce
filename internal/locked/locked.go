// Package locked reads the errors of runs that left locked rows.
package locked

import (
	"errors"

	"github.com/prescient-go/prescient/slots"
)

// Only reports whether a run or a catch-up with this error did all but rows that other sessions have locked. After an
// abandoned check it did not, because its process must end.
func Only(err error) bool {
	return errors.Is(err, slots.ErrLocked) && !errors.Is(err, slots.ErrAbandoned)
}
