package testkit

import (
	"time"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
)

// maxSlots bounds the slots with rows that RunAll runs.
const maxSlots = 1000

// Run runs one slot. It moves an earlier clock to the slot; with a later clock the run is late.
// Slots that the clock passes are not run, so their rows are missed. An error of a check is in the
// Result and in the log of the test. It does not end the test. A row that another transaction keeps
// locked does, after some seconds, with slots.ErrLocked.
func (k *Kit) Run(slot time.Time) slots.Result {
	k.t.Helper()
	if k.Now().Before(slot) {
		k.Clock.Set(slot)
	}
	k.enqueuePeriodic()
	result, err := k.Runner.Run(k.t.Context(), slot)
	k.must(err)
	return result
}

// enqueuePeriodic makes the rows of periodic functions that have none. In production each run has a
// Runner of its own, which makes them.
func (k *Kit) enqueuePeriodic() {
	k.t.Helper()
	k.must(k.Client.EnqueuePeriodic(reserved.Caller{}, k.t.Context(), k.DB, k.registry))
}

// RunUntil moves time to an instant and runs each slot as it begins, including that of the instant.
// It returns the results of slots in which rows were checked, or left because their job is not
// registered.
func (k *Kit) RunUntil(at time.Time) (results []slots.Result) {
	k.t.Helper()
	g := k.Client.Grid()
	last := g.Floor(at)
	for slot := g.Ceil(k.Now()); !slot.After(last); slot = k.Now() {
		if result := k.Run(slot); result.Checked > 0 || len(result.Unknown) > 0 {
			results = append(results, result)
		}
		if slot.Equal(last) {
			break
		}
		k.enqueuePeriodic() // a check may have cancelled one
		_, err := k.replay.Skip(k.t.Context(), last)
		k.must(err)
	}
	if at.After(k.Now()) {
		k.Clock.Set(at)
	}
	return results
}

// RunFor is RunUntil for a duration from now.
func (k *Kit) RunFor(d time.Duration) []slots.Result {
	k.t.Helper()
	return k.RunUntil(k.Now().Add(d))
}

// RunDue runs what is due now: the slot that has begun, and the slots that were missed before it,
// as "prescient run --catch-up" does. It returns the results of the slots with rows.
func (k *Kit) RunDue() (results []slots.Result) {
	k.t.Helper()
	if result := k.Run(k.Client.Grid().Floor(k.Now())); result.Checked > 0 {
		results = append(results, result)
	}
	_, err := k.Runner.CatchUp(k.t.Context(), slots.CatchUp{After: func(r slots.Result) {
		results = append(results, r)
	}})
	k.must(err)
	return results
}

// RunAll moves time until no row waits in a future slot, except those of periodic functions and
// schedules, which always have a next instant. It ends the test if checks go on for 1000 slots, or
// if rows belong to a job that is not registered. It returns the results of the slots in which rows
// were checked.
func (k *Kit) RunAll() (results []slots.Result) {
	k.t.Helper()
	from := k.Client.Grid().Ceil(k.Now())
	for range maxSlots {
		slot, found := k.nextSlot(from)
		if !found {
			return results
		}
		for _, result := range k.RunUntil(slot) {
			if len(result.Unknown) > 0 {
				k.t.Fatalf("rows of %q wait in slot %s, and no such job is registered:\n%s", result.Unknown,
					result.Slot.Format(time.RFC3339), k.waits())
			}
			results = append(results, result)
		}
		from = k.Client.Grid().Next(slot) // rows that a run has left do not block it
	}
	k.t.Fatalf("%d slots were run, and there is still something to do:\n%s", maxSlots, k.waits())
	return nil
}

// nextSlot returns the first slot from an instant on in which a row waits that does not recur by
// itself.
func (k *Kit) nextSlot(from time.Time) (slot time.Time, found bool) {
	k.t.Helper()
	for row, err := range admin.New(k.Client).List(k.t.Context(), k.DB, admin.Filter{From: from}) {
		k.must(err)
		if row.JobExec != schedule.JobExec && row.Key() != jobs.PeriodicKey(row.JobExec) {
			return row.NextCheckAt, true
		}
	}
	return time.Time{}, false
}
