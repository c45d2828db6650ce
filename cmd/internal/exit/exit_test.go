package exit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prescient-go/prescient/slots"
)

// A daemon stops itself after it has abandoned a check, and its catch-up is stopped with it.
func TestAnAbandonedCheckIsAFailureAlsoInACommandThatStopped(t *testing.T) {
	t.Parallel()
	abandoned := fmt.Errorf("run slot 1: %w", slots.ErrAbandoned)
	for name, test := range map[string]struct {
		err  error
		want Code
	}{
		"stopped":                         {fmt.Errorf("run slot 1: %w", slots.ErrStopped), Stopped},
		"abandoned":                       {abandoned, Failure},
		"abandoned, and catch-up stopped": {errors.Join(abandoned, slots.ErrStopped), Failure},
		"stopped, and a check abandoned":  {errors.Join(slots.ErrStopped, abandoned), Failure},
	} {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("%s: the code is %d, want %d", name, got, test.want)
		}
	}
}
