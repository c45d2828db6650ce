package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// PRESCIENT_TEST_CRON says for how long, such as 10m. With sql/pgtest/dates/test.sh the clock of
// cron's zone may change meanwhile.
func TestARealCronRunsEachSlot(t *testing.T) {
	t.Parallel()
	long := os.Getenv("PRESCIENT_TEST_CRON")
	if long == "" {
		t.Skip("this takes minutes: PRESCIENT_TEST_CRON=10m")
	}
	most, err := time.ParseDuration(long)
	if err != nil {
		t.Fatal(err)
	}
	broken, err := run(t.Context(), options{seed: 1, most: most, recovery: 5 * time.Minute, cronned: true, hasty: true})
	if broken > 0 || err != nil {
		t.Fatalf("%d violations, %v", broken, err)
	}
}

func TestASlotThatCronDoesNotRunIsFound(t *testing.T) {
	t.Parallel()
	minute := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	slot := func(n, late int, kind string) begunSlot {
		at := minute.Add(time.Duration(n) * time.Minute)
		return begunSlot{at, at.Add(time.Duration(late) * time.Second), kind}
	}
	for name, test := range map[string]struct {
		slots []begunSlot
		want  string // empty: nothing
	}{
		"each slot":     {[]begunSlot{slot(1, 1, "run"), slot(2, 30, "run")}, ""},
		"a slot less":   {[]begunSlot{slot(1, 1, "run")}, "no run has opened slot 2030-03-01 12:02:00"},
		"by catch-up":   {[]begunSlot{slot(1, 1, "run"), slot(2, 1, "catch_up")}, "catch-up ran slot 2030-03-01 12:02:00"},
		"a minute late": {[]begunSlot{slot(1, 61, "run"), slot(2, 1, "run")}, "was opened 1m1s after"},
	} {
		got := strings.Join(found(func(broken func(string, ...any)) {
			checkSlots(test.slots, minute.Add(time.Second), minute.Add(3*time.Minute), broken)
		}), "; ")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: found %q, want %q", name, got, test.want)
		}
	}
}
