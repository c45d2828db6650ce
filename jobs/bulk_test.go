package jobs_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// orders yields n checks, each on an order of its own; spoil changes one before it is yielded.
func orders(n int, spoil func(i int, job *jobs.Request)) iter.Seq[jobs.Request] {
	return func(yield func(jobs.Request) bool) {
		for i := range n {
			job := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(i)}
			job.CheckAt = slot(1)
			if spoil != nil {
				spoil(i, &job)
			}
			if !yield(job) {
				return
			}
		}
	}
}

func TestAStreamIsEnqueuedInOneTransactionWhateverItsLength(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, n := range []int{0, 1, 9999, 10000, 24001} {
		tx := s.db.MustBegin()
		got, err := s.client.EnqueueAll(t.Context(), tx, orders(n, nil))
		if err != nil || got != (jobs.EnqueueCounts{Inserted: int64(n)}) {
			t.Errorf("%d rows: %+v, %v", n, got, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	var left int
	if err := s.db.Get(&left, `select count(*) from prescient.future_job`); err != nil || left != 0 {
		t.Errorf("%d rows left, %v", left, err)
	}
	if got, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(12000, nil)); err != nil || got.Inserted != 12000 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(13000, nil)); err != nil || got != (jobs.EnqueueCounts{Inserted: 1000, Kept: 12000}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAStreamKeepsTheRowsThatWaitWhereverTheyTurnUp(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]jobs.OnConflict{"keep": jobs.Keep, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			late := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "13000"}
			late.CheckAt = slot(9)
			if _, err := s.client.Enqueue(t.Context(), jobs.OwnTx(s.db), late); err != nil {
				t.Fatal(err)
			}
			// One row of the second chunk waits; two of the fourth are given twice, and some have no key.
			got, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(32000, func(i int, job *jobs.Request) {
				switch {
				case i == 31001 || i == 31002:
					job.EntityKey = "31000"
				case i%10000 == 7:
					job.EntityKey, job.Anonymous = "7", true
				}
			}), on)
			if want := (jobs.EnqueueCounts{Inserted: 31997, Kept: 3}); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
			kept, err := admin.New(s.client).Show(t.Context(), s.db, "order", "13000")
			if err != nil || len(kept) != 1 || !kept[0].NextCheckAt.Equal(slot(9)) {
				t.Errorf("order 13000 has the rows %v, %v", kept, err)
			}
		})
	}
}

func TestAStreamIsWrittenThroughWhateverIsADB(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	plain := struct{ jobs.Tx }{tx} // a wrapper of the application's, without prepared statements
	if got, err := s.client.EnqueueAll(t.Context(), plain, orders(12000, nil)); err != nil || got.Inserted != 12000 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAStreamNeverGoesToASlotThatHasBegun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	_, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(3, func(i int, job *jobs.Request) {
		job.CheckAt = time.Date(2001, time.January, 1+i, 0, 0, 0, 0, time.UTC)
	}), jobs.Keep)
	if err != nil {
		t.Fatal(err)
	}
	var past int
	if err := s.db.Get(&past, `select count(*) from prescient.future_job where next_check_at <= clock_timestamp()`); err != nil || past != 0 {
		t.Errorf("%d rows in slots that have begun, %v", past, err)
	}
}

func TestAStreamWithBadRowsWritesNothingAndLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	_, err := s.client.EnqueueAll(t.Context(), tx, orders(24000, func(i int, job *jobs.Request) {
		if i == 12000 || i == 23999 {
			job.EntityKey = ""
		}
	}), jobs.Keep)
	bulk, ok := errors.AsType[*jobs.BulkError](err)
	if !ok {
		t.Fatal(err)
	}
	var bad []int
	for _, row := range bulk.Requests {
		bad = append(bad, row.Index)
	}
	if diff := cmp.Diff([]int{12000, 23999}, bad); diff != "" {
		t.Error(diff)
	}
	var n int
	if err := tx.Get(&n, `select count(*) from prescient.future_job`); err != nil || n != 0 {
		t.Errorf("%d rows written, %v", n, err)
	}
}

func TestAStreamThatIsAllWrongEndsEarly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	yielded := 0
	_, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(1<<30, func(_ int, job *jobs.Request) {
		yielded++
		job.JobExec = ""
	}), jobs.Keep)
	if bulk, ok := errors.AsType[*jobs.BulkError](err); !ok || len(bulk.Requests) != 1000 || yielded != 1000 {
		t.Errorf("%d rows yielded, %v", yielded, err)
	}
}

func TestAStreamStopsAtAnErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if _, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(1, nil)); err != nil {
		t.Fatal(err)
	}
	_, err := s.client.EnqueueAll(t.Context(), jobs.OwnTx(s.db), orders(20000, nil), jobs.Reject)
	if !errors.Is(err, jobs.ErrExists) {
		t.Errorf("%v", err)
	}
	var n int
	if err := s.db.Get(&n, `select count(*) from prescient.future_job`); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestAStreamThatIsNilIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), nil); err == nil || err.Error() != "enqueue requests: the sequence is nil" {
		t.Error(err)
	}
}
