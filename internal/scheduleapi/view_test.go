package scheduleapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/scheduleapi"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
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

// It is 13:20, so slot 13:15 is the current one, and no run has opened it.
func TestADetailListsNoInstantThatMaxRunsWillNotAllow(t *testing.T) {
	t.Parallel()
	slot := time.Date(2030, time.March, 1, 13, 15, 0, 0, time.UTC)
	ago := func(slots int) time.Time { return slot.Add(-time.Duration(slots) * grid.Default.Width()) }
	for name, c := range map[string]struct {
		misfire         schedule.Misfire
		next            time.Time
		left            int64
		deadline        time.Duration
		overdue, coming int
	}{
		"none is due":                         {schedule.All, slot.Add(time.Hour), 3, 0, 0, 3},
		"all: three are due":                  {schedule.All, ago(2), 5, 0, 3, 2},
		"all: as many are due as are allowed": {schedule.All, ago(2), 3, 0, 3, 0},
		"all: more are due than are allowed":  {schedule.All, ago(2), 2, 0, 2, 0},
		"all: more are due than are listed":   {schedule.All, ago(24), 30, 0, 20, 5},
		"all: the newest are published":       {schedule.All, ago(300), 103, 0, 20, 2},
		"all: some are past their deadline":   {schedule.All, ago(8), 10, time.Hour, 9, 6},
		"latest: one of the missed":           {schedule.Latest, ago(4), 5, 0, 5, 3},
		"latest: none was missed":             {schedule.Latest, slot, 5, 0, 1, 4},
		"skip: none of the missed":            {schedule.Skip, ago(4), 5, 0, 5, 4},
		"nothing is allowed any more":         {schedule.Skip, ago(4), 0, 0, 0, 0},
		"nothing is allowed, and none is due": {schedule.All, slot.Add(time.Hour), 0, 0, 0, 0},
	} {
		d := scheduleapi.NewDetail(schedule.Schedule{
			Spec: schedule.Spec{
				ID: "report", Crontab: "*/15 * * * *", Misfire: c.misfire, MaxRuns: 1000, Deadline: c.deadline,
			},
			State: schedule.Active, Next: c.next, Slot: c.next, Runs: 1000 - c.left,
		}, grid.Default, slot.Add(5*time.Minute))
		if len(d.Overdue) != c.overdue || len(d.Coming) != c.coming {
			t.Errorf("%s: %d overdue and %d coming, want %d and %d", name, len(d.Overdue), len(d.Coming), c.overdue, c.coming)
		}
	}
}

// It is 13:20, and the spread is 5 hours. So instants of the last hours have passed, and their slots have not begun.
func TestADetailListsAnInstantThatItsSpreadPutsIntoALaterSlot(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, time.March, 1, 13, 20, 0, 0, time.UTC)
	spec := schedule.Spec{ID: "report", Crontab: "*/15 * * * *", Spread: 5 * time.Hour}
	from := now.Add(-spec.Spread)
	all, err := schedule.Preview(spec, grid.Default, from, now)
	if err != nil {
		t.Fatal(err)
	}
	var want []scheduleapi.Instant
	for at, slot := range all {
		if slot.After(now) {
			want = append(want, scheduleapi.Instant{Instant: at, Slot: slot})
		}
	}
	if len(want) == 0 || len(want) > 20 {
		t.Fatalf("%d instants wait for their slots: choose another id", len(want))
	}
	for name, next := range map[string]time.Time{"none is due": want[0].Instant, "some are due": from} {
		d := scheduleapi.NewDetail(schedule.Schedule{Spec: spec, State: schedule.Active, Next: next}, grid.Default, now)
		if diff := cmp.Diff(want, d.Coming[:len(want)]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
