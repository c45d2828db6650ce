package rule_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/slots/grid"
)

func TestAStepHasPassedIfItsSlotHadBegunWhenTheRowCame(t *testing.T) {
	t.Parallel()
	boundary := time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		step, came time.Duration // from the boundary
		passed     bool
	}{
		{-time.Hour, time.Minute, true},
		{0, time.Microsecond, true},
		{time.Microsecond, time.Minute, false},      // its slot is still to come
		{time.Minute, 15*time.Minute - 1000, false}, // so is this one
		{time.Minute, 15*time.Minute + 1000, true},  //
		{0, 0, false}, // a row that is written at the instant of its step
		{-time.Microsecond, 0, true},
		{time.Hour, time.Minute, false},
	} {
		first := rule.FirstToCome(grid.Default, boundary.Add(test.came))
		if passed := boundary.Add(test.step).Before(first); passed != test.passed {
			t.Errorf("a step at %s of a row that came at %s has passed: %v", test.step, test.came, passed)
		}
	}
}

func TestTheLastStepBeforeAnInstantIsThatOfAllSteps(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	timing, err := rule.NewTiming(rule.Rule{Steps: []rule.Step{
		{Name: "a", After: rule.Delay{Duration: 10 * hour}},
		{Name: "b", After: rule.Delay{Duration: hour}, Every: rule.Delay{Duration: 4 * hour}},
		{Name: "c", After: rule.Delay{Duration: 13 * hour}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		at           time.Duration
		step, number int
	}{
		{hour, 0, 0},
		{hour + 1, 1, 1},
		{10 * hour, 1, 3},
		{10*hour + 1, 0, 1},
		{12 * hour, 0, 1},
		{13*hour + 1, 2, 1}, // also the fourth of b
		{17*hour + 1, 1, 5},
	} {
		step, last := timing.LastBefore(since, since.Add(test.at))
		if step != test.step || last.Number != test.number {
			t.Errorf("before %s: occurrence %d of step %d, want %d of %d", test.at, last.Number, step, test.number, test.step)
		}
	}
}

func TestRowsThatAreSpreadGetTheirOwnSlotOfTheWindow(t *testing.T) {
	t.Parallel()
	came := time.Date(2026, time.March, 4, 12, 1, 0, 0, time.UTC)
	r := rule.Rule{Name: "r", Entity: "order", Overdue: rule.Overdue{Policy: rule.OverdueSpread, Slots: 4}}
	slots := map[time.Time]int{}
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"} {
		slots[r.SlotFor(grid.Default, came, key)]++
	}
	next := came.Add(14 * time.Minute)
	for slot := range slots {
		if slot.Before(next) || !slot.Before(next.Add(time.Hour)) {
			t.Errorf("slot %s", slot)
		}
	}
	if len(slots) < 3 {
		t.Errorf("slots %v", slots)
	}
	r.Overdue = rule.Overdue{}
	if got := r.SlotFor(grid.Default, came, "1"); !got.Equal(next) {
		t.Errorf("the slot of a row that is not spread is %s", got)
	}
}
