package journal

import (
	"strings"
	"testing"
	"time"
)

func TestACheckIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 11, 22, 13, 15, 0, 0, time.UTC)
	const most = 1<<27 - 1
	for _, c := range []Check{
		{slot, 1, 0, 0},
		{slot, 255, 4095 * time.Millisecond, 4095 * time.Microsecond},
		{time.Unix(0, 0).UTC(), 2, time.Millisecond, time.Microsecond},
		{time.Unix(1<<32-1, 0).UTC(), 2, 123400 * time.Millisecond, 56780 * time.Microsecond},
		{slot, 17, most * time.Millisecond, most * time.Microsecond},
	} {
		line, ok := c.Short()
		if !ok || len(line) != 12 || strings.ContainsAny(line, "[{\n") {
			t.Fatalf("%v is %q, %v; want 12 characters that are no JSON", c, line, ok)
		}
		got, ok := Parse(line + "\n")
		if !ok || got.Slot != c.Slot || got.Runner != c.Runner || !near(got.Lateness, c.Lateness) || !near(got.Duration, c.Duration) {
			t.Errorf("%v is read as %v, %v", c, got, ok)
		}
	}
}

// near tells whether four digits are equal.
func near(got, want time.Duration) bool {
	return got <= want && float64(want-got) <= float64(want)/2048
}

func TestAMoveIsReadFromEachFormOfALine(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 11, 22, 13, 15, 0, 0, time.UTC)
	second := slot.Add(time.Second)
	short, _ := Check{Slot: slot, Runner: 1, Lateness: time.Second}.Short()
	for line, want := range map[string]Move{
		short:                                   {Slot: slot, At: second},
		`["retry",1795353300,"a",1000,20,"no"]`: {Slot: slot, At: second},
		`["deferred",1795353300,"a",null,null,null,1795353301000]`:    {Slot: slot, At: second, Taken: true},
		`{"what":"rescheduled","at":1795353301000,"slot":1795353300}`: {Slot: slot, At: second, Taken: true},
		`{"what":"retried","at":1795353301000,"slot":1795353300}`:     {Slot: slot, At: second, Taken: true, Returned: true},
	} {
		if m, ok := ParseMove(line); !ok || m != want {
			t.Errorf("%s is read as %v, %v", line, m, ok)
		}
	}
	for _, line := range []string{"", "[]", `{"what":"recorded","at":1,"slot":1}`, `["deferred",1795353300,"a"]`} {
		if m, ok := ParseMove(line); ok {
			t.Errorf("%s is read as %v", line, m)
		}
	}
}

func TestWhatDoesNotFitHasNoShortForm(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, 11, 22, 13, 15, 0, 0, time.UTC)
	for name, c := range map[string]Check{
		"the runner is not known":   {Slot: slot},
		"too many runners":          {Slot: slot, Runner: 256},
		"before its slot":           {Slot: slot, Runner: 1, Lateness: -time.Second},
		"two days late":             {Slot: slot, Runner: 1, Lateness: 48 * time.Hour},
		"five minutes long":         {Slot: slot, Runner: 1, Duration: 5 * time.Minute},
		"in the next century":       {Slot: slot.AddDate(100, 0, 0), Runner: 1},
		"before the first of times": {Slot: time.Unix(-60, 0), Runner: 1},
	} {
		if line, ok := c.Short(); ok {
			t.Errorf("%s: %q", name, line)
		}
	}
	for _, line := range []string{"", `["next",1790000000,"a",1,1]`, `{"what":"kept"}`, "AAAA", "AAAAAAAAAAAA=", "AAAAAAAAAAAAAAAA"} {
		if c, ok := Parse(line); ok {
			t.Errorf("%q is read as %v", line, c)
		}
	}
}
