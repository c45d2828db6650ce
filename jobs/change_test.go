package jobs_test

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

func TestCancelByKeyEndsOneRowAsCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := check("1", slot(4))
	job.ItemKey, job.GroupKey = "item", "group"
	if err := job.SetPayload([]int{1, 2}); err != nil {
		t.Fatal(err)
	}
	e := w.enqueue(job, jobs.Keep)
	w.enqueue(check("1", slot(4)), jobs.Keep)
	w.enqueue(check("2", slot(4)), jobs.Keep)
	for _, want := range []bool{true, false} {
		if found, err := w.client.Cancel(t.Context(), w.db, job.Key()); err != nil || found != want {
			t.Errorf("found %t, %v, want %t", found, err, want)
		}
	}
	if n := len(w.waiting()); n != 2 {
		t.Errorf("%d rows wait", n)
	}
	list := w.history()
	if len(list) != 1 {
		t.Fatalf("history: %+v", list)
	}
	got := list[0]
	if got.Outcome != jobs.Cancelled || got.ID != e.ID || got.Key() != job.Key() || got.GroupKey != "group" || string(got.Payload) != "[1, 2]" ||
		!got.Slot.Equal(slot(4)) || !got.FirstCheckAt.Equal(slot(4)) || !got.NextCheckAt.IsZero() || got.Runner != "" || got.Duration != 0 || got.EndedAt.IsZero() {
		t.Errorf("history: %+v", got)
	}
}

func TestCancelByEntityEndsItsKeyedRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	item, other := check("1", slot(4)), check("1", slot(4))
	item.ItemKey, other.JobExec = "item", "alert"
	if _, err := w.client.EnqueueMany(t.Context(), w.db, []jobs.FutureJob{check("1", slot(4)), item, other, anonymous("1", slot(4)), check("2", slot(4))}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{3, 0} {
		if n, err := w.client.CancelEntity(t.Context(), w.db, "order", "1"); err != nil || n != want {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	if n := w.outcomes(); len(w.waiting()) != 2 || n[jobs.Cancelled] != 3 {
		t.Errorf("%d wait, history %v", len(w.waiting()), n)
	}
}

func TestACancelledKeyMayBeEnqueuedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 {
		if e := w.enqueue(check("1", slot(4)), jobs.FailOnConflict); e.Action != jobs.Inserted {
			t.Errorf("%+v", e)
		}
		if found, err := w.client.Cancel(t.Context(), w.db, keyOf("1")); err != nil || !found {
			t.Errorf("%t, %v", found, err)
		}
	}
	if list, err := admin.New(w.client).EntityHistory(t.Context(), w.db, "order", "1"); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestRescheduleMovesEarlierAndLaterAndNeverIntoThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	e := w.enqueue(check("1", slot(4)), jobs.Keep)
	for _, test := range []struct{ at, want time.Time }{
		{slot(9).Add(-time.Minute), slot(9)},
		{slot(2), slot(2)},
		{slot(2), slot(2)},
		{now.Add(-time.Hour), slot(1)},
		{slot(3).Add(300), slot(3)},
	} {
		got, found, err := w.client.Reschedule(t.Context(), w.db, keyOf("1"), test.at)
		if err != nil || !found || !got.Equal(test.want) || got.Location() != time.UTC {
			t.Errorf("to %s: %s, %t, %v", test.at, got, found, err)
		}
		list := w.waiting()
		if len(list) != 1 || list[0].ID != e.ID || !list[0].NextCheckAt.Equal(test.want) || !list[0].FirstCheckAt.Equal(slot(4)) {
			t.Errorf("to %s: %+v", test.at, list)
		}
	}
}

func TestPushBackMovesLaterOnlyAndUpToItsCap(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(4)), jobs.Keep)
	for _, test := range []struct {
		at    time.Time
		delay time.Duration
		want  int
	}{
		{slot(3), 0, 4},
		{now.Add(-time.Hour), 0, 4},
		{slot(4).Add(time.Second), 0, 5},
		{slot(40), 45 * time.Minute, 7},
		{slot(40), 59 * time.Minute, 7}, // no slot in between
		{slot(40), 30 * time.Minute, 7}, // over already
		{slot(6), 24 * time.Hour, 7},
		{slot(20), 24 * time.Hour, 20},
		{slot(400), 24 * time.Hour, 100},
		{slot(400), 0, 400},
	} {
		got, found, err := w.client.PushBack(t.Context(), w.db, keyOf("1"), test.at, test.delay)
		if err != nil || !found || !got.Equal(slot(test.want)) {
			t.Errorf("to %s, no later than %s: %s, %t, %v, want %s", test.at, test.delay, got, found, err, slot(test.want))
		}
	}
	if list := w.waiting(); !list[0].FirstCheckAt.Equal(slot(4)) || !list[0].NextCheckAt.Equal(slot(400)) {
		t.Errorf("%+v", list)
	}
}

func TestAChangeOfACheckThatDoesNotWaitFindsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(anonymous("1", slot(4)), jobs.Keep)
	if at, found, err := w.client.Reschedule(t.Context(), w.db, keyOf("1"), slot(5)); found || err != nil || !at.IsZero() {
		t.Error(at, found, err)
	}
	if at, found, err := w.client.PushBack(t.Context(), w.db, keyOf("1"), slot(5), time.Hour); found || err != nil || !at.IsZero() {
		t.Error(at, found, err)
	}
	if found, err := w.client.Cancel(t.Context(), w.db, keyOf("1")); found || err != nil {
		t.Error(found, err)
	}
	if n, err := w.client.CancelEntity(t.Context(), w.db, "order", "1"); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestAPushBackThatLandsInTheSameSlotWritesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(4)), jobs.Keep)
	place := func() (s string) {
		if err := w.db.GetContext(t.Context(), &s, "select ctid::text from prescient.future_job"); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := place()
	if _, found, err := w.client.PushBack(t.Context(), w.db, keyOf("1"), slot(4).Add(-time.Second), time.Hour); !found || err != nil {
		t.Error(found, err)
	}
	w.enqueue(check("1", slot(4)), jobs.PushBack(0))
	if _, err := w.client.EnqueueMany(t.Context(), w.db, []jobs.FutureJob{check("1", slot(4))}, jobs.PushBack(0)); err != nil {
		t.Error(err)
	}
	if after := place(); after != before {
		t.Errorf("the row was written: it moved from %s to %s", before, after)
	}
}
