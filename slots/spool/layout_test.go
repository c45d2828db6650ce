package spool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

func TestTheNameOfASlotIsItsMinuteInUTC(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 1, 14, 15, 0, 0, time.FixedZone("CET", 3600))
	if got := slotName(slot); got != "2603011315" {
		t.Errorf("%s is %s", slot, got)
	}
	for slot := range (grid.Grid{}).Between(minSlot, maxSlot) {
		if slot.Minute() != 0 || slot.Hour()%7 != 0 { // a sample of a hundred years
			continue
		}
		if back, ok := parseSlot(slotName(slot)); !ok || !back.Equal(slot) {
			t.Fatalf("%s is %s is %s", slot, slotName(slot), back)
		}
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

func FuzzASidecarIsReadAsItWasWrittenOrRefused(f *testing.F) {
	for _, text := range []string{`{}`, `{"timeout":"5m","misfire":"skip"}`, `{"retry":-1}`, `{"max_checks":"3"}`, `{"added_at":"2026-03-01T13:15:00Z"}`, `null`, `[]`, `{"spent":"-1s"}`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		job, err := parseJob(text)
		if err != nil {
			return
		}
		path := t.TempDir() + "/job"
		if err := writeJSON(sidecar(path), job); err != nil {
			t.Fatalf("%+v cannot be written: %v", job, err)
		}
		again, err := readJob(path)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(job) {
			t.Errorf("%+v became %+v, error %v", job, again, err)
		}
	})
}

func FuzzOutputIsReadAlikeInWhateverPiecesItComes(f *testing.F) {
	f.Add("next: 2026-03-01T13:15:00Z\n", 3)
	f.Add("a\n\nnext:x\nb", 1)
	f.Add("next:", 2)
	f.Add(strings.Repeat("x", 2*maxLine)+"\nnext: 2026-03-01T13:15:00Z", 7)
	f.Fuzz(func(t *testing.T, text string, size int) {
		whole, pieces := &stream{output: &output{}}, &stream{output: &output{}}
		_, _ = whole.Write([]byte(text))
		for rest := text; rest != ""; {
			n := min(max(size, 1), len(rest))
			_, _ = pieces.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		at, err := whole.asked()
		at2, err2 := pieces.asked()
		if fmt.Sprint(at, err) != fmt.Sprint(at2, err2) || whole.lastLine() != pieces.lastLine() || string(whole.kept()) != string(pieces.kept()) {
			t.Errorf("%q in pieces of %d: %v %v, %v %v", text, size, at, err, at2, err2)
		}
		if at != nil && !strings.Contains(text, nextPrefix) {
			t.Errorf("%q asks for %s", text, at)
		}
	})
}
