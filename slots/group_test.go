package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// enqueueGroups asks for n checks of each group at slot 1.
func (w *world) enqueueGroups(n int, groups ...string) {
	w.t.Helper()
	var list []jobs.Request
	for i := range n {
		for _, group := range groups {
			list = append(list, jobs.Request{
				JobExec: "job", EntityName: "customer", EntityKey: fmt.Sprint(group, i), GroupKey: group, CheckAt: slot(1),
			})
		}
	}
	if _, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list); err != nil {
		w.t.Fatal(err)
	}
}

func TestARunAsksOnceForTheLockOfAGroupThatNobodyElseHolds(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{100, 1000} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			var mu sync.Mutex
			calls := map[string][]int{}
			w.registry.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				calls[batch[0].GroupKey] = append(calls[batch[0].GroupKey], len(batch))
				return make([]jobs.Result, len(batch)), nil
			}))
			w.enqueueGroups(rows, "a", "b")
			faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
			faults.Set(pgtest.Fault{})
			result := w.run(slot(1), func(c *slots.Config) { c.DB, c.Page = faults.DB, 2*rows })
			if result.Finished != int64(2*rows) || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			for _, group := range []string{"a", "b"} {
				if got := calls[group]; len(got) != 1 || got[0] != rows {
					t.Errorf("group %s was checked in calls of %v rows", group, got)
				}
			}
			tries := 0
			for _, text := range faults.Trips() {
				tries += strings.Count(text, "pg_try_advisory_xact_lock")
			}
			if tries != 2 {
				t.Errorf("the run asked %d times for the lock of a group, want once for each of 2", tries)
			}
		})
	}
}

func TestCatchUpChecksTheGroupsOfTheRowsThatItMayTakeWhole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Group("family", doneGroup))
	w.enqueueGroups(10, "a", "b", "c") // with ids in the order a0, a1 ... c9
	w.clock.Set(slot(2))
	w.catchUp(slots.CatchUp{Limit: 12})
	if done := w.outcomes()[jobs.OutcomeDone]; done != 20 {
		t.Errorf("%d rows are done, want those of 2 groups", done)
	}
	waiting := w.waiting() // claims may begin at once, so the groups that were taken may be any two
	for _, row := range waiting {
		if row.GroupKey != waiting[0].GroupKey {
			t.Errorf("rows of the groups %s and %s wait", waiting[0].GroupKey, row.GroupKey)
		}
	}
}

func TestCatchUpOfOneJobChecksItsRowsOfAGroupAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var calls [][]string
	family := jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		var names []string
		for i := range batch {
			names = append(names, batch[i].JobExec)
		}
		calls = append(calls, names)
		return make([]jobs.Result, len(batch)), nil
	})
	w.registry.Register("job", family)
	w.registry.Register("other", family)
	w.enqueueGroups(2, "a")
	other := jobs.Request{JobExec: "other", EntityName: "customer", EntityKey: "a", GroupKey: "a", CheckAt: slot(1)}
	if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), other); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(2))
	w.catchUp(slots.CatchUp{Job: "job"})
	if waiting := w.waiting(); len(waiting) != 1 || waiting[0].JobExec != "other" {
		t.Errorf("%v wait, want the row of the other job", waiting)
	}
	w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff([][]string{{"job", "job"}, {"other"}}, calls); diff != "" {
		t.Error(diff)
	}
}

// The rows of the group are in several claims, each larger than one call.
func TestACallOfALargeGroupGetsABoundedPartOfItsRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it has 60 MB of payloads")
	}
	t.Parallel()
	w := setup(t)
	const rows, size, bound = 200, 300_000, 16 << 20
	var mu sync.Mutex
	checked := map[string]int{}
	calls, running := 0, false
	w.registry.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mu.Lock()
		if calls++; running {
			t.Error("two calls of the group at once")
		}
		running = true
		mu.Unlock()
		bytes := 0
		for i := range batch {
			checked[batch[i].EntityKey]++
			bytes += len(batch[i].Payload)
		}
		if bytes > bound+size+2 {
			t.Errorf("a call of %d rows and %d bytes, want at most %d bytes and a row", len(batch), bytes, bound)
		}
		mu.Lock()
		running = false
		mu.Unlock()
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueueGroups(rows, "a")
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	result := w.run(slot(1), func(c *slots.Config) { c.Page = 80 })
	if result.Finished != rows || result.State != slots.StateDone || len(checked) != rows || calls != rows*size/bound+1 {
		t.Errorf("%d calls for %d rows: %+v", calls, len(checked), result)
	}
	for key, n := range checked {
		if n != 1 {
			t.Errorf("row %s was checked %d times", key, n)
		}
	}
}

// The call ends with an error for its rows, and the rest of the group has a call of its own.
func TestTheRestOfALargeGroupIsCheckedThoughACallFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const rows, size = 80, 300_000
	calls := 0
	w.registry.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		if calls++; calls == 1 {
			return nil, errors.New("no such customer")
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	w.enqueueGroups(rows, "a")
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	result := w.run(slot(1), func(c *slots.Config) { c.Page = rows })
	if result.Failed+result.Finished != rows || result.Failed == 0 || result.Finished == 0 || calls != 2 || result.State != slots.StateDone {
		t.Errorf("%d calls: %+v", calls, result)
	}
}

// The rest is of another claim than the rows of the call, whose own claim finds nothing left.
func TestTheRestOfALargeGroupIsCheckedThoughACallIsAbandoned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const rows, others, size = 50, 20, 300_000 // a call has 56 rows
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	var calls atomic.Int64
	family := jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		if calls.Add(1) == 1 {
			<-never
		}
		return make([]jobs.Result, len(batch)), nil
	})
	w.registry.Register("job", family, jobs.Timeout(time.Second))
	w.registry.Register("other", family, jobs.Timeout(time.Second), jobs.Priority(1))
	w.enqueueGroups(rows, "a")
	for n := range others {
		request := jobs.Request{JobExec: "other", EntityName: "customer", EntityKey: fmt.Sprint("o", n), GroupKey: "a", CheckAt: slot(1)}
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), request); err != nil {
			t.Fatal(err)
		}
	}
	w.db.MustExec(`update prescient.future_job set payload = to_jsonb(repeat('x', $1))`, size)
	w.clock.Set(slot(1))
	result := endOf(t, w.startRun(context.WithoutCancel(t.Context()), w.runner(func(c *slots.Config) { c.Page, c.Grace = rows, 100*time.Millisecond })))
	if !errors.Is(result.err, slots.ErrAbandoned) || result.Failed+result.Finished != rows+others || result.Finished == 0 {
		t.Errorf("%d calls: %+v", calls.Load(), result)
	}
}
