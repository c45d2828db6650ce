package spool

import (
	"strings"
	"testing"
	"time"
)

func TestTheNameOfAFolderIsItsMinuteInUTC(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 1, 14, 15, 0, 0, time.FixedZone("CET", 3600))
	if got := slotName(slot); got != "2603011315" {
		t.Errorf("%s is %s", slot, got)
	}
}

func FuzzANameIsOfOneSlotOrOfNone(f *testing.F) {
	for _, name := range []string{"2603011315", "0001010000", "9912312359", "2602300000", "2603012460", "history", "", "26030113150", "+603011315", "2603011315 "} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		slot, ok := parseSlot(name)
		if ok && slotName(slot) != name {
			t.Errorf("%q is %s, which is %q", name, slot, slotName(slot))
		}
		if digits := len(name) == 10 && strings.Trim(name, "0123456789") == ""; ok && !digits {
			t.Errorf("%q is a slot", name)
		}
	})
}
