package slots_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
)

// enqueueList asks for checks at a slot, in this order and in one group.
func (w *world) enqueueList(at time.Time, list ...jobs.Request) {
	w.t.Helper()
	for i := range list {
		list[i].EntityName, list[i].GroupKey = "order", "one"
		list[i].CheckAt = at
		if _, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), list[i]); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Among the rows that are checked together are as many of the paused job as their owner cancels, and the sums of their
// ids are the same: 50 + 51 = 49 + 52.
//
// Not parallel: where no other transaction of the server is in progress, a run knows that no row can come late.
func TestARowOfAJobThatIsPausedDuringTheRunIsNotDoneWithoutItsCheck(t *testing.T) {
	w := setup(t)
	const page, paused = 100, "paused"
	var list []jobs.Request
	for n := range 5 * page {
		job := jobs.Request{JobExec: "job", EntityKey: fmt.Sprint(n)}
		if n == 4*page+50 || n == 4*page+51 {
			job.JobExec = paused
		}
		list = append(list, job)
	}
	w.enqueueList(slot(1), list...)
	owners := map[string]bool{fmt.Sprint(4*page + 49): true, fmt.Sprint(4*page + 52): true}

	var mu sync.Mutex
	checked := map[string]bool{}
	check := func(batch []jobs.FutureJob) []jobs.Result {
		mu.Lock()
		defer mu.Unlock()
		for _, job := range batch {
			checked[job.EntityKey] = true
		}
		return make([]jobs.Result, len(batch))
	}
	w.registry.Register(paused, jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return check(batch), nil
	}))
	w.registry.Register("job", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		if _, err := admin.New(w.client).Pause(ctx, w.db, paused); err != nil {
			return nil, err
		}
		for _, job := range batch {
			if owners[job.EntityKey] {
				if _, err := w.client.Cancel(ctx, jobs.OwnTx(w.db), job.Key()); err != nil {
					return nil, err
				}
			}
		}
		return check(batch), nil
	}))
	w.run(slot(1), func(c *slots.Config) { c.Page = page; c.Workers = 1 })

	ended, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, admin.HistoryFilter{Outcome: jobs.OutcomeDone, Limit: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ended {
		if !checked[e.EntityKey] {
			t.Errorf("%s is done, though nobody has checked it", e.Key())
		}
	}
	if n := len(ended) + len(w.waiting()); n != len(list)-len(owners) {
		t.Errorf("%d rows are done or wait, want all but those that were cancelled: %d", n, len(list)-len(owners))
	}
}

func TestARowOfAnotherJobThatIsCommittedLateIsCheckedByTheSameRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	started, release := make(chan struct{}), make(chan struct{})
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		close(started)
		<-release
		return nil, nil
	}))
	w.registry.Register("late", jobs.Row(done))
	w.enqueue("job", slot(1), 1)
	business := w.db.MustBegin()
	defer func() { _ = business.Rollback() }()
	const late = 8
	for n := range late {
		job := jobs.Request{JobExec: "late", EntityName: "shipment", EntityKey: fmt.Sprint(n)}
		job.CheckAt = slot(1)
		if _, err := w.client.Enqueue(t.Context(), business, job); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Set(slot(1))
	finished := w.background(slot(1))
	<-started
	if err := business.Commit(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if result := <-finished; result.Finished != 1+late || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	if left := w.waiting(); len(left) > 0 {
		t.Errorf("%d rows were stranded", len(left))
	}
}

func TestRowsOfAJobThatTheRunnerDoesNotKnowWaitInTheirSlotForOneThatDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs many slots")
	}
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 60)
	w.enqueue("other.team", slot(1), 31)
	result := w.run(slot(1))
	if result.Checked != 60 || result.Finished != 60 || result.State != slots.StateOpen {
		t.Errorf("the runner that does not know the job: %+v", result)
	}
	if again := w.run(slot(1)); again.Checked != 0 || again.State != slots.StateOpen {
		t.Errorf("the same again: %+v", again)
	}
	w.clock.Set(slot(2))
	for _, mode := range []slots.Mode{slots.ModeRun, slots.ModeExpire} {
		w.catchUp(slots.CatchUp{Mode: mode})
	}
	for _, job := range w.waiting() {
		if !job.NextCheckAt.Equal(slot(1)) || job.ErrorCount+job.CheckCount != 0 || job.LastError != "" {
			t.Fatalf("a row was touched: %+v", job)
		}
	}
	if trouble := w.status().Trouble; len(trouble) == 0 || trouble[0].State != slots.StateOpen || trouble[0].Waiting().N != 31 {
		t.Errorf("the status: %+v", trouble)
	}
	waiting, err := w.ledger.Waiting(t.Context(), slot(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ledger.JobCount{{JobExec: "other.team", Waiting: ledger.Count{N: 31}}}, waiting); diff != "" {
		t.Error(diff)
	}

	w.registry = jobs.NewRegistry()
	w.registry.Register("other.team", jobs.Row(done))
	if result := w.run(slot(1)); result.Finished != 31 || result.State != slots.StateDone {
		t.Errorf("the runner that knows the job: %+v", result)
	}
	if run := w.show(slot(1)); run.Finished != 91 || run.Checked != 91 || run.State != slots.StateDone {
		t.Errorf("the ledger: %+v", run)
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 91}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
}
