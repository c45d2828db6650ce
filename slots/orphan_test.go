package slots_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
)

// knowing returns a registry with jobs whose checks are finished at once.
func knowing(names ...string) *jobs.Registry {
	registry := jobs.NewRegistry()
	for _, name := range names {
		registry.Register(name, jobs.Row(done))
	}
	return registry
}

// A runner has claimed rows of several jobs together, and dies. The other runners do not know all of the jobs.
func TestTheClaimOfADeadRunnerIsTakenOverInPart(t *testing.T) {
	t.Parallel()
	const rows, lease = 12, time.Second
	all := []string{"a", "b", "c"}
	for name, test := range map[string]struct {
		runners [][]string // the jobs that each of the others knows
		paused  string
		done    int // rows that they finish
		unknown []string
	}{
		"by one that knows a job":       {runners: [][]string{{"a"}}, done: rows, unknown: []string{"b", "c"}},
		"by each that knows a job":      {runners: [][]string{{"a"}, {"b"}, {"c"}}, done: 3 * rows},
		"by one for whom one is paused": {runners: [][]string{{"a", "c"}}, paused: "c", done: rows, unknown: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for _, job := range all {
				w.enqueue(job, slot(1), rows)
			}
			die := w.claimAll(all, rows, lease)
			var others []<-chan slots.Result
			for _, known := range test.runners {
				others = append(others, w.background(slot(1), func(c *slots.Config) { c.Registry, c.Lease = knowing(known...), 3*lease }))
			}
			w.eventually("the others to be there", func() bool {
				return w.count(`select count(*) from prescient.slot_claim where jobs = '{}'`) == 1+len(others)
			})
			if test.paused != "" {
				if _, err := admin.New(w.client).Pause(t.Context(), w.db, test.paused); err != nil {
					t.Fatal(err)
				}
			}
			died := time.Now()
			die()
			finished := 0
			for _, other := range others {
				result := <-other
				finished += int(result.Finished)
				if diff := cmp.Diff(test.unknown, result.Unknown); diff != "" && len(others) == 1 {
					t.Error(diff)
				}
			}
			if finished != test.done {
				t.Errorf("%d rows were finished, want %d", finished, test.done)
			}
			var last time.Time
			if err := w.db.Get(&last, `select max(finished_at) from prescient.future_job_history`); err != nil {
				t.Fatal(err)
			}
			if took := last.Sub(died); took > lease+lease/3+5*time.Second {
				t.Errorf("the claim was taken over after %s", took)
			}
			if n := w.count(`select sum(take_overs) from (select take_overs from prescient.slot_progress union all select take_overs from prescient.slot_run) as t`); n < 1 && test.paused == "" {
				t.Error("the ledger has no take-over")
			}
			if _, err := admin.New(w.client).Resume(t.Context(), w.db, "c"); err != nil {
				t.Fatal(err)
			}
			w.registry = knowing(all...)
			w.run(slot(1))
			if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: len(all) * rows}, w.outcomes()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// claimAll starts a runner that claims so many rows of each of some jobs together, and returns what makes it die.
func (w *world) claimAll(names []string, rows int, lease time.Duration) (die func()) {
	w.t.Helper()
	network := w.network()
	db := network.open()
	var started atomic.Int64
	registry := jobs.NewRegistry()
	for _, name := range names {
		registry.Register(name, jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
			started.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	}
	w.clock.Set(slot(1))
	r := w.runner(func(c *slots.Config) {
		c.DB, c.Registry, c.Lease, c.Workers, c.Grace = db, registry, lease, len(names)*rows, time.Millisecond
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.Run(ctx, slot(1))
	}()
	w.t.Cleanup(func() { <-ended })
	w.t.Cleanup(stop)
	w.eventually("all rows to be claimed", func() bool { return started.Load() == int64(len(names)*rows) })
	if n := w.count(`select count(*) from prescient.slot_claim where cardinality(jobs) = $1`, len(names)); n != 1 {
		w.t.Fatalf("%d claims of all jobs", n)
	}
	return func() {
		network.silence()
		stop()
	}
}
