package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// ended is how a row ended, or where it waits.
type ended struct {
	Outcome    jobs.Outcome // empty: it waits
	Slot       time.Time
	CheckCount int
	ErrorCount int
	LastError  string
}

// fate returns what became of order 0.
func (w *world) fate() ended {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).History(w.t.Context(), w.db, admin.HistoryFilter{EntityName: "order", EntityKey: "0"}))
	if err != nil {
		w.t.Fatal(err)
	}
	waiting := w.waiting()
	if len(list)+len(waiting) != 1 {
		w.t.Fatalf("%d rows ended and %d wait, want one row in exactly one place", len(list), len(waiting))
	}
	if len(list) == 1 {
		e := list[0]
		return ended{e.Outcome, e.Slot, e.CheckCount, e.ErrorCount, e.LastError}
	}
	j := waiting[0]
	return ended{"", j.NextCheckAt, j.CheckCount, j.ErrorCount, j.LastError}
}

func TestEveryWayACheckCanEndHasItsOutcome(t *testing.T) {
	t.Parallel()
	at := func(next time.Time) jobs.CheckFunc {
		return func(context.Context, jobs.FutureJob) (*time.Time, error) { return &next, nil }
	}
	for _, test := range []struct {
		name    string
		check   jobs.CheckFunc
		options []jobs.Option
		late    time.Duration // how long after its slot the run starts
		want    ended
	}{
		{name: "nil: done", check: done, want: ended{jobs.OutcomeDone, slot(1), 1, 0, ""}},
		{
			name: "a time: rounded up to its slot", check: at(slot(2).Add(time.Second)),
			want: ended{"", slot(3), 1, 0, ""},
		},
		{
			name:  "a time after this slot that is past, because the run is late: the next slot from now",
			check: at(slot(2)), late: time.Hour,
			want: ended{"", slot(6), 1, 0, ""},
		},
		{name: "this slot: past", check: at(slot(1)), want: ended{jobs.OutcomePast, slot(1), 1, 0, ""}},
		{name: "an earlier time: past", check: at(slot(-100)), want: ended{jobs.OutcomePast, slot(1), 1, 0, ""}},
		{
			name: "beyond the horizon", check: at(slot(100)), options: []jobs.Option{jobs.Horizon(time.Hour)},
			want: ended{jobs.OutcomeHorizon, slot(1), 1, 0, ""},
		},
		{
			name: "beyond the range of the database", check: at(slot(1).AddDate(20000, 0, 0)), options: []jobs.Option{jobs.Horizon(1 << 62)},
			want: ended{jobs.OutcomeHorizon, slot(1), 1, 0, ""},
		},
		{
			name: "one check too many", check: at(slot(2)), options: []jobs.Option{jobs.MaxChecks(1)},
			want: ended{jobs.OutcomeMaxChecks, slot(1), 1, 0, ""},
		},
		{
			name:  "an error: again one slot later",
			check: func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("no such order") },
			want:  ended{"", slot(2), 0, 1, "no such order"},
		},
		{
			name: "an error beside a time is an error",
			check: func(context.Context, jobs.FutureJob) (*time.Time, error) {
				return new(slot(9)), errors.New("no such order")
			},
			want: ended{"", slot(2), 0, 1, "no such order"},
		},
		{
			name:    "an error that is not tried again: failed",
			check:   func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("no such order") },
			options: []jobs.Option{jobs.Retry(0)},
			want:    ended{jobs.OutcomeFailed, slot(1), 0, 1, "no such order"},
		},
		{
			name: "an error text that the database cannot hold",
			check: func(context.Context, jobs.FutureJob) (*time.Time, error) {
				return nil, errors.New("a\x00b\xff" + strings.Repeat("c", 5000))
			},
			want: ended{"", slot(2), 0, 1, "ab\uFFFD" + strings.Repeat("c", 992) + " ... " + strings.Repeat("c", 998)},
		},
		{
			name:  "a panic",
			check: func(context.Context, jobs.FutureJob) (*time.Time, error) { panic("oh no") },
			want:  ended{"", slot(2), 0, 1, "panic: oh no"},
		},
		{
			name:  "runtime.Goexit",
			check: func(context.Context, jobs.FutureJob) (*time.Time, error) { runtime.Goexit(); return nil, nil },
			want:  ended{"", slot(2), 0, 1, "the check called runtime.Goexit"},
		},
		{
			name: "a timeout that it heeds",
			check: func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			options: []jobs.Option{jobs.Timeout(20 * time.Millisecond)},
			want:    ended{"", slot(2), 0, 1, "timeout after 20ms: context deadline exceeded"},
		},
		{
			name: "a result just after the timeout counts",
			check: func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
				<-ctx.Done()
				return nil, nil
			},
			options: []jobs.Option{jobs.Timeout(20 * time.Millisecond)},
			want:    ended{jobs.OutcomeDone, slot(1), 1, 0, ""},
		},
		{
			name: "past its deadline: not checked", check: done, options: []jobs.Option{jobs.Deadline(time.Minute)}, late: time.Hour,
			want: ended{jobs.OutcomeDeadline, slot(1), 0, 0, ""},
		},
		{
			name: "within its deadline", check: done, options: []jobs.Option{jobs.Deadline(time.Hour)}, late: time.Hour,
			want: ended{jobs.OutcomeDone, slot(1), 1, 0, ""},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(test.check), test.options...)
			w.enqueue("job", slot(1), 1)
			w.clock.Set(slot(1).Add(test.late))
			result, err := w.runner().Run(t.Context(), slot(1))
			if err != nil || result.State != slots.StateDone {
				t.Fatalf("%+v, %v", result, err)
			}
			if diff := cmp.Diff(test.want, w.fate()); diff != "" {
				t.Error(diff)
			}
			if result.Checked != 1 || result.Finished+result.Rescheduled+result.Failed != 1 {
				t.Errorf("counts: %+v", result)
			}
		})
	}
}

func TestARowWhoseDeadlinePassesWhileItWaitsForItsTurnIsNotChecked(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(r *jobs.Registry, turn func(), opts ...jobs.Option){
		"rows": func(r *jobs.Registry, turn func(), opts ...jobs.Option) {
			r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				turn()
				return nil, nil
			}), opts...)
		},
		"rows in transactions": func(r *jobs.Registry, turn func(), opts ...jobs.Option) {
			r.Register("job", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) {
				turn()
				return nil, nil
			}), opts...)
		},
		"batches": func(r *jobs.Registry, turn func(), opts ...jobs.Option) {
			r.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				turn()
				return make([]jobs.Result, len(batch)), nil
			}), append(opts, jobs.AtMost(1), jobs.LimitBy(func(job jobs.FutureJob) string { return job.EntityKey }))...)
		},
		"groups": func(r *jobs.Registry, turn func(), opts ...jobs.Option) {
			r.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				turn()
				return make([]jobs.Result, len(batch)), nil
			}), opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry, func() { w.clock.Set(slot(1).Add(2 * time.Minute)) }, jobs.Deadline(time.Minute))
			w.enqueue("job", slot(1), 5)
			result := w.run(slot(1), func(c *slots.Config) { c.Workers, c.Connections = 1, 1 })
			if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeDone: 1, jobs.OutcomeDeadline: 4}, w.outcomes()); diff != "" {
				t.Error(diff)
			}
			if result.State != slots.StateDone || result.Finished != 5 || result.Yielded != 0 {
				t.Errorf("%+v", result)
			}
			if n := w.count("select count(*) from prescient.future_job_history where outcome = 'deadline' and duration is null and check_count = 0"); n != 4 {
				t.Errorf("%d of them were not checked", n)
			}
		})
	}
}

// A search for another error in it calls a method of the pointer.
func TestANilPointerThatBecameAnErrorIsTheErrorOfItsRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var none *fs.PathError
	list := func(batch []jobs.FutureJob) []jobs.Result {
		results := make([]jobs.Result, len(batch))
		results[0].Err = none
		return results
	}
	w.registry.Register("row", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, none }))
	w.registry.Register("row in a transaction", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, none }))
	w.registry.Register("batch", jobs.Batch(func(context.Context, []jobs.FutureJob) ([]jobs.Result, error) { return nil, none }))
	w.registry.Register("row of a batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) { return list(batch), nil }))
	w.registry.Register("one of each", jobs.Each(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, none }))
	w.registry.Register("batch in a transaction", jobs.BatchInTx(func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) { return nil, none }))
	w.registry.Register("group", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return list(batch), none
	}))
	w.registry.Register("other", jobs.Row(done))
	for def := range w.registry.All() {
		w.enqueue(def.Name, slot(1), 1)
	}
	if result := w.run(slot(1)); result.Failed != 7 || result.Finished != 1 || result.State != slots.StateDone {
		t.Errorf("%+v", result)
	}
	for _, row := range w.waiting() {
		if row.ErrorCount != 1 || !strings.Contains(row.LastError, "PathError") && !strings.Contains(row.LastError, "nil pointer") {
			t.Errorf("%s: %d errors: %s", row.JobExec, row.ErrorCount, row.LastError)
		}
	}
}

func TestARowOfAnUnknownJobWaitsInItsSlotForARunnerThatKnowsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("not.deployed.yet", slot(1), 1)
	result := w.run(slot(1))
	if result.State != slots.StateOpen || len(result.Unknown) != 1 || result.Unknown[0] != "not.deployed.yet" {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff(ended{"", slot(1), 0, 0, ""}, w.fate()); diff != "" {
		t.Error(diff)
	}
	w.registry.Register("not.deployed.yet", jobs.Row(done))
	w.run(slot(1))
	if got := w.fate(); got.Outcome != jobs.OutcomeDone {
		t.Errorf("after the deploy: %+v", got)
	}
}

func TestErrorsBackOffInSlotsUntilTheRowFailsAndRetryPutsItBack(t *testing.T) {
	t.Parallel()
	w := setup(t)
	fails := true
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		if fails {
			return nil, errors.New("down")
		}
		return nil, nil
	}), jobs.Retry(3))
	w.enqueue("job", slot(1), 1)
	at := 1
	for _, pause := range []int{1, 2, 4} {
		w.run(slot(at))
		at += pause
		if got := w.fate(); !got.Slot.Equal(slot(at)) {
			t.Fatalf("waits for %s, want %s", got.Slot, slot(at))
		}
	}
	w.run(slot(at))
	if got := w.fate(); got.Outcome != jobs.OutcomeFailed || got.ErrorCount != 4 {
		t.Fatalf("after the last retry: %+v", got)
	}
	fails = false
	retried, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{JobExec: "job"}, time.Time{})
	if err != nil || retried != 1 {
		t.Fatalf("retried %d, %v", retried, err)
	}
	w.run(slot(at + 1))
	if got := w.fate(); got.Outcome != jobs.OutcomeDone {
		t.Errorf("after the retry: %+v", got)
	}
}

func TestACheckIsToldWhereItStands(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var seen []jobs.FutureJob
	w.registry.Register("job", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		seen = append(seen, job)
		if job.CheckCount < 2 {
			return new(job.Slot.Add(15 * time.Minute)), nil
		}
		return nil, nil
	}))
	w.enqueue("job", slot(1), 1)
	w.run(slot(1))
	w.clock.Set(slot(2).Add(time.Minute))
	if _, err := w.runner().Run(t.Context(), slot(2)); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(5))
	if _, err := w.runner().CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range seen {
		got = append(got, fmt.Sprintf("slot %s count %d late %s caught up %t first %s", j.Slot.Format("15:04"), j.CheckCount, j.Lateness,
			j.CaughtUp, j.FirstCheckAt.Format("15:04")))
	}
	want := []string{
		"slot 12:15 count 0 late 0s caught up false first 12:15",
		"slot 12:30 count 1 late 1m0s caught up false first 12:15",
		"slot 12:45 count 2 late 30m0s caught up true first 12:15",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A page leaves out what the reader knows; the row that a check gets has it all.
func TestACheckIsGivenTheWholeRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	seen := map[int64]jobs.FutureJob{}
	look := func(job jobs.FutureJob) jobs.Result {
		mu.Lock()
		defer mu.Unlock()
		job.Slot, job.Lateness = time.Time{}, 0
		seen[job.ID] = job
		switch {
		case job.CheckCount+job.ErrorCount > 0:
			return jobs.Result{}
		case job.ItemKey == "fails":
			time.Sleep(3 * time.Millisecond)
			return jobs.Result{Err: errors.New("broken")}
		default:
			return jobs.Result{Next: new(slot(2))}
		}
	}
	lookAtAll := func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		var results []jobs.Result
		for _, row := range rows {
			results = append(results, look(row))
		}
		return results, nil
	}
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		r := look(job)
		return r.Next, r.Err
	}))
	w.registry.Register("batch", jobs.Batch(lookAtAll))
	w.registry.Register("group", jobs.Group("family", func(ctx context.Context, _ *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return lookAtAll(ctx, rows)
	}))
	for i, job := range []string{"one", "batch", "group"} {
		for _, row := range []jobs.Request{
			{ItemKey: "fails", GroupKey: "g", Payload: json.RawMessage(`{"a": 1}`)},
			{ItemKey: "moves"},
			{},
			{Anonymous: true},
		} {
			row.JobExec, row.EntityName, row.EntityKey = job, "order", fmt.Sprint(i)
			row.CheckAt = slot(1)
			if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 2 {
		clear(seen)
		want := map[int64]jobs.FutureJob{}
		for _, row := range w.waiting() {
			want[row.ID] = row
		}
		w.run(slot(n + 1))
		if diff := cmp.Diff(want, seen, cmp.AllowUnexported(jobs.FutureJob{})); diff != "" || len(seen) != 12 {
			t.Errorf("slot %d: %s", n+1, diff)
		}
	}
}

func TestTheNextCheckGetsThePayloadThatACheckOfAKindHasChanged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, kind := range []jobs.Kind[int]{{Name: "count"}, {Name: "count in a transaction"}} {
		count := func(seen *int) (*time.Time, error) {
			if *seen++; *seen == 3 {
				return nil, errors.New("three")
			}
			return new(w.clock.Now().Add(time.Minute)), nil
		}
		if i == 0 {
			kind.Register(w.registry, jobs.Row(func(_ context.Context, job *jobs.Job[int]) (*time.Time, error) {
				return count(&job.Data)
			}))
		} else {
			kind.Register(w.registry, jobs.InTx(func(_ context.Context, _ *sqlx.Tx, job *jobs.Job[int]) (*time.Time, error) {
				return count(&job.Data)
			}))
		}
		row := jobs.Request{EntityName: "order", EntityKey: "1", CheckAt: slot(1)}
		if _, err := kind.Enqueue(t.Context(), w.client, jobs.OwnTx(w.db), row, 0); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []string{"1", "2", "2"} {
		w.run(slot(n + 1))
		for _, row := range w.waiting() {
			if string(row.Payload) != want {
				t.Errorf("slot %d, %s: %s", n+1, row.JobExec, row.Payload)
			}
		}
	}
}

func TestThePayloadOfTheLastCheckIsInHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	answer := func(job jobs.FutureJob) jobs.Result {
		result := jobs.Result{Payload: json.RawMessage(`"new"`)}
		switch job.EntityKey {
		case "kept":
			result.Payload = nil
		case "failed":
			result.Err = errors.New("no")
		}
		return result
	}
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (jobs.Result, error) { return answer(job), nil }), jobs.Retry(0))
	w.registry.Register("many", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i := range batch {
			results[i] = answer(batch[i])
		}
		return results, nil
	}), jobs.Retry(0))
	for _, job := range []string{"one", "many"} {
		for _, key := range []string{"kept", "done", "failed"} {
			w.enqueueList(slot(1), jobs.Request{JobExec: job, EntityName: "order", EntityKey: key, Payload: json.RawMessage(`"old"`)})
		}
	}
	w.run(slot(1))
	got := map[string]string{}
	ended, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, admin.HistoryFilter{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range ended {
		got[row.JobExec+" "+row.EntityKey] = string(row.Outcome) + " " + string(row.Payload)
	}
	want := map[string]string{
		"one kept": `done "old"`, "one done": `done "new"`, "one failed": `failed "new"`,
		"many kept": `done "old"`, "many done": `done "new"`, "many failed": `failed "new"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The first commit of a check has to be repeated, and its repetition ignores the timeout.
func TestACheckThatIsRepeatedIsAbandonedAsAnyWhenItIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`
		create table effect ();
		create function refuse() returns trigger language plpgsql as $$ begin raise exception 'again' using errcode = '40001'; end $$;
		create constraint trigger refuse after insert on effect deferrable initially deferred for each row execute function refuse()`)
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	t.Cleanup(end)
	time.AfterFunc(await.Limit, end) // it would go on for ever
	var calls atomic.Int64
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		if calls.Add(1) > 1 {
			<-over
		}
		_, err := tx.ExecContext(ctx, `insert into effect default values`)
		return nil, err
	}), jobs.Timeout(time.Second))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Grace = 100 * time.Millisecond; c.Workers = 4 }).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrAbandoned) || result.Abandoned != 1 || calls.Load() != 2 {
		t.Errorf("after %d calls: %+v, %v", calls.Load(), result, err)
	}
}

func TestACheckThatIgnoresItsTimeoutIsAbandonedAndTheRunFailsAtItsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-never
		return nil, nil
	}), jobs.Timeout(10*time.Millisecond))
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("stuck", slot(1), 1)
	w.enqueue("job", slot(1), 200)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Grace = 10 * time.Millisecond; c.Workers = 4 }).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrAbandoned) || result.Abandoned != 1 || result.State != slots.StateDone {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := w.outcomes()[jobs.OutcomeDone]; n != 200 {
		t.Errorf("%d of the other rows are done, want 200", n)
	}
	left := w.waiting()
	if len(left) != 1 || !strings.Contains(left[0].LastError, "abandoned") {
		t.Errorf("the stuck row: %+v", left)
	}
}

// lines is a log that a function reads.
type lines func(line string)

func (l lines) Write(line []byte) (int, error) {
	l(string(line))
	return len(line), nil
}

// The process must end, whatever else has failed: only that ends the check.
func TestARunThatFailsAfterItHasAbandonedACheckSaysSo(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.refuseHistory("history is broken", "system_error")
	never, abandoned := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(never) })
	told := sync.OnceFunc(func() { close(abandoned) })
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		<-never
		return nil, nil
	}), jobs.Timeout(10*time.Millisecond))
	w.registry.Register("job", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		select {
		case <-abandoned:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	w.enqueue("stuck", slot(1), 1)
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) {
		c.Grace, c.Workers = 10*time.Millisecond, 4
		c.Logger = slog.New(slog.NewTextHandler(lines(func(line string) {
			if strings.Contains(line, "check abandoned") {
				told()
			}
		}), nil))
	}).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrAbandoned) || result.Abandoned != 1 ||
		!strings.Contains(fmt.Sprint(err), "history is broken") {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestARunEndsWhenAsManyChecksAreAbandonedAsThereAreWorkers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	var started atomic.Int32
	w.registry.Register("stuck", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		started.Add(1)
		<-never
		return nil, nil
	}), jobs.Timeout(5*time.Millisecond))
	w.enqueue("stuck", slot(1), 100)
	w.clock.Set(slot(1))
	result, err := w.runner(func(c *slots.Config) { c.Grace = 5 * time.Millisecond; c.Workers = 3 }).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrAbandoned) || result.State != slots.StateOpen {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := started.Load(); n > 6 {
		t.Errorf("%d checks were started, though 3 are abandoned at the most", n)
	}
}

func TestACheckWithATransactionCommitsItsWritesWithItsOutcome(t *testing.T) {
	t.Parallel()
	insert := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) error {
		_, err := tx.ExecContext(ctx, `insert into alert values ($1)`, job.EntityKey)
		return err
	}
	for _, test := range []struct {
		name   string
		check  jobs.TxCheckFunc
		opts   []jobs.Option
		want   ended
		alerts int
	}{
		{
			name: "done",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return nil, insert(ctx, tx, job)
			},
			want: ended{jobs.OutcomeDone, slot(1), 1, 0, ""}, alerts: 1,
		},
		{
			name: "moved",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return new(slot(3)), insert(ctx, tx, job)
			},
			want: ended{"", slot(3), 1, 0, ""}, alerts: 1,
		},
		{
			name: "an error rolls its writes back",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				return nil, errors.Join(insert(ctx, tx, job), errors.New("no"))
			},
			want: ended{"", slot(2), 0, 1, "no"},
		},
		{
			name: "so does a panic",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				panic("oh no")
			},
			want: ended{"", slot(2), 0, 1, "panic: oh no"},
		},
		{
			name: "and runtime.Goexit",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				runtime.Goexit()
				return nil, nil
			},
			want: ended{"", slot(2), 0, 1, "the check called runtime.Goexit"},
		},
		{
			name: "a statement that failed, and was not reported",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				_, _ = tx.ExecContext(ctx, `select 1 / 0`)
				return nil, nil
			},
			want: ended{"", slot(2), 0, 1, "the check went on after an error of its transaction: pq: current transaction is aborted, commands ignored until end of transaction block (25P02)"},
		},
		{
			name: "rows that are left open",
			check: func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.QueryContext(ctx, `select * from generate_series(1, 100000)`) //nolint:sqlclosecheck,rowserrcheck // on purpose
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, "the check has left its transaction such that nothing can be recorded in it, read-only or with rows open: a query has rows that were neither read to their end nor closed"},
		},
		{
			name: "rows that are left open, of a query with parameters",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				_, err := tx.QueryContext(ctx, `select * from generate_series(1, $1::int)`, 2) //nolint:sqlclosecheck,rowserrcheck // on purpose
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, "the check has left its transaction such that nothing can be recorded in it, read-only or with rows open: a query has rows that were neither read to their end nor closed"},
		},
		{
			name: "rows that are left open, of a query that was prepared",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				s, err := tx.PrepareContext(ctx, `select * from generate_series(1, $1::int)`) //nolint:sqlclosecheck // on purpose
				if err == nil {
					_, err = s.QueryContext(ctx, 2) //nolint:sqlclosecheck,rowserrcheck // on purpose
				}
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, "the check has left its transaction such that nothing can be recorded in it, read-only or with rows open: a query has rows that were neither read to their end nor closed"},
		},
		{
			name: "a transaction that only reads",
			check: func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.ExecContext(ctx, `set transaction read only`)
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, "the check has left its transaction such that nothing can be recorded in it, read-only or with rows open: pq: cannot execute INSERT in a read-only transaction (25006)"},
		},
		{
			name: "a temporary table with a constraint that waits for the commit",
			check: func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.ExecContext(ctx, `
					create temporary table parent (id int primary key);
					create temporary table child (id int references parent deferrable initially deferred);
					insert into child values (1);
					insert into parent values (1)`)
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, `the check has left constraints of a temporary table for the commit, which "set constraints all immediate" checks: pq: cannot DROP TABLE "child" because it has pending trigger events (55006)`},
		},
		{
			name: "a check that rolls back itself",
			check: func(_ context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				return nil, tx.Rollback()
			},
			want: ended{"", slot(2), 0, 1, "the check ended its transaction itself: it must return instead"},
		},
		{
			name: "a constraint that fails at commit",
			check: func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				_, err := tx.ExecContext(ctx, `insert into alert values ('refused at commit')`)
				return nil, err
			},
			want: ended{"", slot(2), 0, 1, `commit: pq: insert or update on table "alert" violates foreign key constraint "alert_order_key_fkey" (23503)`},
		},
		{
			name: "a timeout",
			check: func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
				_ = insert(ctx, tx, job)
				<-ctx.Done()
				return nil, ctx.Err()
			},
			opts: []jobs.Option{jobs.Timeout(50 * time.Millisecond)},
			want: ended{"", slot(2), 0, 1, "timeout after 50ms: context deadline exceeded"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec(`
				create table known (order_key text primary key);
				insert into known values ('0');
				create table alert (order_key text primary key references known deferrable initially deferred)`)
			w.registry.Register("job", jobs.InTx(test.check), test.opts...)
			w.enqueue("job", slot(1), 1)
			w.run(slot(1))
			if diff := cmp.Diff(test.want, w.fate()); diff != "" {
				t.Error(diff)
			}
			var alerts int
			if err := w.db.Get(&alerts, `select count(*) from alert`); err != nil || alerts != test.alerts {
				t.Errorf("%d alerts, want %d (%v)", alerts, test.alerts, err)
			}
		})
	}
}

func TestACheckWhoseTransactionLostADeadlockRunsAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	attempts := 0
	w.registry.Register("job", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
		if attempts++; attempts < 3 {
			_, err := tx.ExecContext(ctx, `do $$ begin raise exception 'deadlock' using errcode = 'deadlock_detected'; end $$`)
			return nil, err
		}
		return nil, nil
	}))
	w.enqueue("job", slot(1), 1)
	w.run(slot(1))
	if got := w.fate(); got.Outcome != jobs.OutcomeDone || attempts != 3 {
		t.Errorf("%+v after %d attempts", got, attempts)
	}
}

func TestTheNameOfARunnerIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, name := range []string{strings.Repeat("x", 201), "a\x00", "\xff"} {
		_, err := slots.NewRunner(t.Context(), slots.Config{DB: w.db, Registry: w.registry, Name: name})
		if err == nil || !strings.Contains(err.Error(), "Name must be at most 200 bytes") {
			t.Errorf("%.10q: %v", name, err)
		}
	}
}
