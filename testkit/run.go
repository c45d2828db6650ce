package testkit

import (
	"time"

	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
)

// maxSlots is how many slots with rows RunAll runs.
const maxSlots = 1000

// Run runs one slot. A clock that is before it moves there; with one that is after it the run is late. Slots that it
// passes nobody has run, so that their rows are missed. An error of a check is no error of the run: it is in the
// Result, and in the log of the test.
func (k *Kit) Run(slot time.Time) slots.Result {
	k.t.Helper()
	if k.Now().Before(slot) {
		k.Clock.Set(slot)
	}
	result, err := k.Runner.Run(k.t.Context(), slot)
	k.must(err)
	return result
}

// RunUntil lets time pass until an instant: each slot is run as it begins, that of the instant, too. It returns the
// results of those in which rows were checked, or left since their job is not registered.
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
		_, err := k.replay.Skip(k.t.Context(), last)
		k.must(err)
	}
	if at.After(k.Now()) {
		k.Clock.Set(at)
	}
	return results
}

// RunFor is RunUntil for a time from now on.
func (k *Kit) RunFor(d time.Duration) []slots.Result {
	k.t.Helper()
	return k.RunUntil(k.Now().Add(d))
}

// RunDue runs what is due at this moment: the slot that has begun, and what was missed before it, as
// "prescient run --catch-up" does. It returns the results of the slots with rows.
func (k *Kit) RunDue() (results []slots.Result) {
	k.t.Helper()
	if result := k.Run(k.Client.Grid().Floor(k.Now())); result.Checked > 0 {
		results = append(results, result)
	}
	caught, err := k.Runner.CatchUp(k.t.Context(), slots.CatchUp{})
	k.must(err)
	return append(results, caught.Results...)
}

// RunAll lets time pass until nothing waits any more in the slots to come, however far ahead. A test whose checks go on
// for 1000 slots fails, and so does one with rows of a job that is not registered, which nobody checks. It returns the results of
// the slots in which rows were checked.
func (k *Kit) RunAll() (results []slots.Result) {
	k.t.Helper()
	from := k.Client.Grid().Ceil(k.Now())
	for range maxSlots {
		next, err := admin.New(k.Client).List(k.t.Context(), k.DB, admin.Filter{From: from, Limit: 1})
		k.must(err)
		if len(next) == 0 {
			return results
		}
		slot := next[0].NextCheckAt
		for _, result := range k.RunUntil(slot) {
			if len(result.Unknown) > 0 {
				k.t.Fatalf("rows of %q wait in slot %s, and no such job is registered:\n%s", result.Unknown, result.Slot.Format(time.RFC3339), k.waits())
			}
			results = append(results, result)
		}
		from = k.Client.Grid().Next(slot) // what a run has left is not in its way
	}
	k.t.Fatalf("%d slots were run, and there is still something to do:\n%s", maxSlots, k.waits())
	return nil
}
