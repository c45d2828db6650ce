package slots_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
)

// All keys ask for midnight, every night: each key has its slot in the night, and keeps it from one night to the next.
func TestWhatIsAskedForWithAWindowIsSpreadInEachRoundAndInEveryReplay(t *testing.T) {
	t.Parallel()
	const rows, night = 400, 4 * time.Hour
	midnight := slot(48)
	replay := func() map[string][]time.Time {
		w := setup(t)
		checked := map[string][]time.Time{}
		w.registry.Register("report", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(batch))
			for i, row := range batch {
				checked[row.EntityKey] = append(checked[row.EntityKey], row.Slot)
				if row.CheckCount == 0 {
					results[i].Next = new(midnight.AddDate(0, 0, 1))
				}
			}
			return results, nil
		}), jobs.Within(night), jobs.Concurrency(1))
		for i := range rows {
			row := jobs.Request{JobExec: "report", EntityName: "customer", EntityKey: fmt.Sprint(i), CheckAt: midnight, Within: night}
			if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; n <= 48+96+16; n++ {
			w.run(slot(n), func(c *slots.Config) { c.Workers = 1 })
		}
		if n := w.outcomes()[jobs.OutcomeDone]; n != rows {
			t.Errorf("%d are done", n)
		}
		var told int
		err := w.db.Get(&told, `select count(*) from prescient.future_job_history
			where requested_within = $1 and coalesce(requested_for, first_check_at) = $2`, night.Seconds(), midnight)
		if err != nil || told != rows {
			t.Errorf("history tells of the window of %d, %v", told, err)
		}
		return checked
	}
	first, again := replay(), replay()
	counts := map[time.Time]int{}
	for key, at := range first {
		want := spread.Key{JobExec: "report", EntityName: "customer", EntityKey: key}.PickSlot(slotGrid, midnight, night, midnight)
		if len(at) != 2 || !at[0].Equal(want) || !at[1].Equal(want.AddDate(0, 0, 1)) {
			t.Errorf("customer %s was checked at %s, its place is %s", key, at, want)
		}
		if len(again[key]) != 2 || !again[key][0].Equal(at[0]) {
			t.Errorf("customer %s was checked at %s, and in the replay at %s", key, at, again[key])
		}
		counts[at[0]]++
	}
	if len(counts) != 16 {
		t.Errorf("%d of the 16 slots of the night are used", len(counts))
	}
}
