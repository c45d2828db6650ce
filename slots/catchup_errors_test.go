package slots

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTheErrorOfACatchUpHasTheFirstErrorsAndCountsTheOthers(t *testing.T) {
	t.Parallel()
	var errs slotErrors
	errs.add(nil)
	if err := errs.join(); err != nil {
		t.Error(err)
	}
	for n := range 96 {
		errs.add(fmt.Errorf("slot %d: %w", n, ErrRefused))
		errs.add(nil)
	}
	errs.add(fmt.Errorf("slot 96: %w", ErrAbandoned))
	errs.add(fmt.Errorf("slot 97: %w", ErrAbandoned))
	err := errs.join()
	if lines := strings.Count(err.Error(), "\n") + 1; lines != maxSlotErrors+2 {
		t.Errorf("it has %d lines", lines)
	}
	if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrAbandoned) {
		t.Errorf("it lacks a kind of error")
	}
	if !strings.Contains(err.Error(), "slot 19: ") || !strings.Contains(err.Error(), "77 slots more ended with such an error") {
		t.Error(err)
	}
}
