package scheduleapi_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/schedule"
)

// SQL may write a crontab that cannot be read, which the first check finds out.
func TestAnActiveScheduleWithoutAnInstantHasASlotAlone(t *testing.T) {
	t.Parallel()
	slot := time.Date(2030, time.March, 1, 13, 15, 0, 0, time.UTC)
	v := scheduleapi.NewView(schedule.Schedule{State: schedule.Active, Slot: slot})
	if v.Next != nil {
		t.Errorf("next is %s", v.Next)
	}
	if v.Slot == nil || !v.Slot.Equal(slot) {
		t.Errorf("slot is %v", v.Slot)
	}
}
