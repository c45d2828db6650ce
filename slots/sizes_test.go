package slots_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots"
)

// Not parallel, since it measures the memory of the process.
func TestTheStatusHoldsFewOfManyMissedSlots(t *testing.T) {
	w := setup(t)
	if err := w.ledger.Begin(t.Context(), noon.AddDate(-1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(-2))
	w.enqueue("job", slot(-1), 3)
	w.clock.Set(slot(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, err := w.ledger.Status(t.Context(), time.Time{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	const all = 365*96 + 1
	if n := int64(len(status.Trouble)); n != slots.MostMissed+1 || n+status.MoreMissed != all {
		t.Errorf("%d slots and %d more, want %d of %d", n, status.MoreMissed, slots.MostMissed+1, all)
	}
	if last := status.Trouble[len(status.Trouble)-1]; !last.Slot.Equal(slot(-1)) || last.Waiting != 3 || status.Overdue() != 3 {
		t.Errorf("the slot with rows is %+v", last)
	}
	if mib := float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20); mib > 4 {
		t.Errorf("the status took %.1f MiB", mib)
	}
}

func TestTheLogNamesTheFirstOfManyUnknownJobs(t *testing.T) {
	t.Parallel()
	result := slots.Result{Unknown: slices.Repeat([]string{"order.42"}, 20_000)}
	if text := result.LogValue().String(); len(text) > 2000 {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}
