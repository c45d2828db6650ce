package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestTheSlotsOfAScheduleAreThoseOfItsInstants(t *testing.T) {
	t.Parallel()
	from := time.Date(2030, time.March, 30, 12, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 0, 2)
	for _, spec := range []schedule.Spec{
		{ID: "many in a slot", Crontab: "*/2 * * * *"},
		{ID: "on the slots", Crontab: "*/15 * * * *"},
		{ID: "beside them", Crontab: "7 * * * *"},
		{ID: "where summer time begins", Crontab: "30 2 * * *", Timezone: "Europe/Berlin"},
		{ID: "put off", Crontab: "@hourly", Spread: 24 * time.Hour},
		{ID: "every", Crontab: "@every 50m", Anchor: from.Add(time.Second)},
		{ID: "bounded", Crontab: "@hourly", Start: from.Add(3 * time.Hour), End: from.Add(9 * time.Hour)},
		{ID: "never", Crontab: "0 0 1 1 *"},
	} {
		// One that is put off has instants before the range whose slots are in it.
		instants, err := schedule.Preview(spec, grid.Default, from.Add(-25*time.Hour), to)
		if err != nil {
			t.Fatal(err)
		}
		var want []time.Time
		for _, slot := range instants {
			if !slot.Before(from) && slot.Before(to) && !slices.Contains(want, slot) {
				want = append(want, slot)
			}
		}
		slots, err := schedule.Slots(reserved.Caller{}, spec, grid.Default, from, to)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, slices.Collect(slots)); diff != "" {
			t.Errorf("%s: %s", spec.ID, diff)
		}
	}
}
