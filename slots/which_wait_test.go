package slots

import (
	"context"
	"errors"
	"testing"
	"time"

	waiting "github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestAWaitForASlotEndsIfTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), waiting.Limit)
	defer cancel()
	slot := time.Date(2030, 3, 1, 12, 15, 0, 0, time.UTC)
	asked := 0
	now := func() time.Time {
		if asked++; asked == 1 {
			return slot.Add(-time.Millisecond)
		}
		return slot.Add(-time.Hour)
	}
	if _, err := await(ctx, grid.Default, slot, time.Second, now); err == nil || errors.Is(err, ErrStopped) {
		t.Errorf("it has waited: %v", err)
	}
}
