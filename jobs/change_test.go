package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
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
		if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), job.Key()); err != nil || found != want {
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
	if got.Outcome != jobs.OutcomeCancelled || got.ID != e.ID || got.Key() != job.Key() || got.GroupKey != "group" || string(got.Payload) != "[1, 2]" ||
		!got.Slot.Equal(slot(4)) || !got.FirstCheckAt.Equal(slot(4)) || !got.NextCheckAt.IsZero() || got.Runner != "" || got.Duration != 0 || got.FinishedAt.IsZero() {
		t.Errorf("history: %+v", got)
	}
}

func TestCancelByEntityEndsItsKeyedRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	item, other := check("1", slot(4)), check("1", slot(4))
	item.ItemKey, other.JobExec = "item", "alert"
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("1", slot(4)), item, other, anonymous("1", slot(4)), check("2", slot(4))}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{3, 0} {
		if n, err := w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "order", "1"); err != nil || n != want {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	if n := w.outcomes(); len(w.waiting()) != 2 || n[jobs.OutcomeCancelled] != 3 {
		t.Errorf("%d wait, history %v", len(w.waiting()), n)
	}
}

func TestCancelManyEndsWhatAFilterFinds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	grouped, alert, percent := check("9", slot(4)), check("42-1", slot(4)), check("42%1", slot(5))
	grouped.GroupKey, alert.JobExec = "merchant", "alert"
	paid, text, list := check("50", slot(7)), check("51", slot(7)), check("52", slot(7))
	paid.Payload, text.Payload, list.Payload = []byte(`{"merchant": 42, "country": "DE"}`), []byte(`{"merchant": "42"}`), []byte(`[{"merchant": 42}]`)
	rows := []jobs.Request{check("42-1", slot(4)), check("42-2", slot(5)), anonymous("42-3", slot(6)), grouped, alert, percent, paid, text, list}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), rows); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		filter admin.CancelFilter
		limit  int
		want   int64
	}{
		{admin.CancelFilter{JobExec: "nobody's"}, 10, 0},
		{admin.CancelFilter{EntityName: "invoice"}, 10, 0},
		{admin.CancelFilter{EntityKey: "42_1"}, 10, 0},
		{admin.CancelFilter{EntityKey: "42%*"}, 10, 1},
		{admin.CancelFilter{JobExec: "alert", EntityName: "order", EntityKey: "*-1"}, 10, 1},
		{admin.CancelFilter{GroupKey: "merchant"}, 10, 1},
		{admin.CancelFilter{Payload: `{"merchant": 42, "country": "AT"}`}, 10, 0},
		{admin.CancelFilter{Payload: `{"merchant": null}`}, 10, 0},
		{admin.CancelFilter{Payload: `{"country": "DE", "merchant": 42.0}`, JobExec: "alert"}, 10, 0},
		{admin.CancelFilter{Payload: `{"country": "DE", "merchant": 42.0}`, JobExec: "remind"}, 10, 1},
		{admin.CancelFilter{Payload: `{"merchant": "42"}`}, 10, 1},
		{admin.CancelFilter{EntityKey: "52"}, 10, 1},
		{admin.CancelFilter{EntityName: "order"}, 2, 2}, // those of the first slots
		{admin.CancelFilter{EntityName: "order"}, 2, 1},
		{admin.CancelFilter{EntityName: "order"}, 2, 0},
	} {
		counted, err := admin.New(w.client).PreviewCancel(t.Context(), w.db, step.filter)
		if err != nil || min(counted.Checks, int64(step.limit)) != step.want {
			t.Errorf("%+v: counted %+v, %v", step.filter, counted, err)
		}
		n, next, err := admin.New(w.client).CancelMany(t.Context(), w.db, step.filter, admin.Position{}, step.limit)
		if err != nil || n != step.want || next.IsZero() != (n < int64(step.limit)) {
			t.Errorf("%+v: %d, %v, %v, want %d", step.filter, n, next, err, step.want)
		}
	}
	if n := w.outcomes(); len(w.waiting()) != 0 || n[jobs.OutcomeCancelled] != 9 {
		t.Errorf("%d wait, history %v", len(w.waiting()), n)
	}
	for name, err := range map[string]error{
		"a filter that finds everything": third(admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{}, admin.Position{}, 1)),
		"a payload that is no object":    third(admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{Payload: `42`}, admin.Position{}, 1)),
		"a payload without a field":      third(admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{Payload: `{}`}, admin.Position{}, 1)),
		"a limit of nothing":             third(admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{JobExec: "a"}, admin.Position{}, 0)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	unstorable := admin.CancelFilter{Payload: `{"merchant": "\u0000"}`}
	_, err := admin.New(w.client).PreviewCancel(t.Context(), w.db, unstorable)
	if refused, ok := errors.AsType[*jobs.FieldError](err); !ok || refused.Field != "payload" {
		t.Errorf("a payload that no check can have: %v", err)
	}
}

// The transaction that first enqueued a new job may go on for long.
func TestCancelManyNamesAJobWhoseNameHasNotCommitted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first, second := check("1", slot(4)), check("2", slot(4))
	first.JobExec, second.JobExec = "quite new", "quite new"
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	if _, err := w.client.Enqueue(t.Context(), holder, first); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), second); err != nil {
		t.Fatal(err)
	}
	n, _, err := admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{JobExec: "quite new"}, admin.Position{}, 10)
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if ended := w.history(); len(ended) != 1 || ended[0].JobExec != "quite new" {
		t.Errorf("%+v", ended)
	}
}

func third(_ int64, _ admin.Position, err error) error { return err }

// A walk does not come back to a row that another transaction had locked: the caller may walk again.
func TestCancelManyGoesOnBehindItsPosition(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var list []jobs.Request
	for n := range 7 {
		list = append(list, check(fmt.Sprint(n), slot(4+n%3)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job where entity_key = '0' for update")
	all, from := admin.CancelFilter{EntityName: "order"}, admin.Position{}
	for walk, batches := range [][]int64{{2, 2, 2, 0}, {1}} {
		for i, want := range batches {
			n, next, err := admin.New(w.client).CancelMany(t.Context(), w.db, all, from, 2)
			if err != nil || n != want {
				t.Fatalf("walk %d, batch %d: %d, %v, want %d", walk, i, n, err, want)
			}
			if from = next; i == 0 && walk == 0 {
				if err := holder.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !from.IsZero() {
			t.Errorf("walk %d ends at %+v", walk, from)
		}
	}
}

func TestCancelManyLeavesARowThatAnotherTransactionHasLocked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("1", slot(4)), check("2", slot(4))}); err != nil {
		t.Fatal(err)
	}
	holder := w.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job where entity_key = '1' for update")
	all := admin.CancelFilter{EntityName: "order"}
	if n, _, err := admin.New(w.client).CancelMany(t.Context(), w.db, all, admin.Position{}, 10); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := admin.New(w.client).PreviewCancel(t.Context(), w.db, all); err != nil || n.Checks != 1 {
		t.Errorf("%+v left, %v", n, err)
	}
}

// One row is locked during the first walk, and another one during both.
func TestCancelAllWalksASecondTimeForRowsThatWereLocked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var list []jobs.Request
	for n := range 2500 {
		list = append(list, check(fmt.Sprint(n), slot(4)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	hold := func(key string) *sqlx.Tx {
		holder := w.db.MustBegin()
		t.Cleanup(func() { _ = holder.Rollback() })
		holder.MustExec("select from prescient.future_job where entity_key = $1 for update", key)
		return holder
	}
	first, _ := hold("0"), hold("1")
	var told []int64
	operator, all := admin.New(w.client), admin.CancelFilter{EntityName: "order"}
	done, err := operator.CancelAll(t.Context(), w.db, all, admin.CancelOptions{
		Actor: "alice",
		Told: func(n int64) {
			told = append(told, n)
			_ = first.Rollback() // has no effect after the first time
		},
	})
	if err != nil || done != (admin.Cancelled{Cancelled: 2499, Left: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	if want := []int64{1000, 2000, 2498, 2499}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	var named int
	const query = "select count(*) from prescient.future_job_history where journal like '%alice%'"
	if err := w.db.Get(&named, query); err != nil || named != 2499 && !pgtest.OnCitus() { // whose workers do not know the actor
		t.Errorf("%d rows name the actor, %v", named, err)
	}
}

func TestCancelAllEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n, key := range []string{"1", "2", "3"} {
		w.enqueue(check(key, slot(4+n)), jobs.Keep)
	}
	operator, all := admin.New(w.client), admin.CancelFilter{EntityName: "order"}
	done, err := operator.CancelAll(t.Context(), w.db, all, admin.CancelOptions{Limit: 2})
	if err != nil || done != (admin.Cancelled{Cancelled: 2}) {
		t.Errorf("%+v, %v", done, err)
	}
	if rows := w.waiting(); len(rows) != 1 || rows[0].EntityKey != "3" {
		t.Errorf("%+v wait", rows)
	}
	for name, err := range map[string]error{
		"a filter that finds everything": second(operator.CancelAll(t.Context(), w.db, admin.CancelFilter{}, admin.CancelOptions{})),
		"a negative limit":               second(operator.CancelAll(t.Context(), w.db, all, admin.CancelOptions{Limit: -1})),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func second(_ admin.Cancelled, err error) error { return err }

func TestACountNamesTheChecksThatAreCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operator, all := admin.New(w.client), admin.CancelFilter{JobExec: "remind"}
	if found, err := operator.PreviewCancel(t.Context(), w.db, all); err != nil || found != (admin.CancelCount{Digest: "0"}) {
		t.Errorf("%+v, %v", found, err)
	}
	w.enqueue(check("1", slot(4)), jobs.Keep)
	found, err := operator.PreviewCancel(t.Context(), w.db, all)
	if err != nil || found.Checks != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1")); err != nil {
		t.Fatal(err)
	}
	w.enqueue(check("2", slot(4)), jobs.Keep)
	if other, err := operator.PreviewCancel(t.Context(), w.db, all); err != nil || other.Checks != 1 || other.Digest == found.Digest {
		t.Errorf("%+v, as %+v, %v", other, found, err)
	}
	w.enqueue(check("1", slot(3)), jobs.Keep)
	all.Until = found.Until
	if found, err := operator.PreviewCancel(t.Context(), w.db, all); err != nil || found.Checks != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if done, err := operator.CancelAll(t.Context(), w.db, all, admin.CancelOptions{}); err != nil || done != (admin.Cancelled{}) {
		t.Errorf("%+v, %v", done, err)
	}
	if err := second(operator.CancelAll(t.Context(), w.db, admin.CancelFilter{Until: found.Until}, admin.CancelOptions{})); err == nil {
		t.Error("a filter of Until alone is taken")
	}
}

// A transaction moves a row between the snapshot of CancelMany and its lock on the row.
func TestCancelManyCancelsARowThatIsMovedMeanwhile(t *testing.T) {
	t.Parallel()
	const rows, limit = 2000, 100
	w := setup(t)
	var list []jobs.Request
	for n := range rows {
		list = append(list, check(fmt.Sprint(n), slot(4)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	var movers sync.WaitGroup
	over := make(chan struct{})
	for at := range 4 {
		movers.Go(func() {
			for n := at; ; n += 4 {
				select {
				case <-over:
					return
				default:
				}
				if _, _, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf(fmt.Sprint(n%limit)), slot(4+n%3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := int64(limit); n > 0; { // a row that a mover has locked is left to a later call
		var err error
		if n, _, err = admin.New(w.client).CancelMany(t.Context(), w.db, admin.CancelFilter{EntityName: "order"}, admin.Position{}, limit); err != nil {
			t.Fatal(err)
		}
	}
	close(over)
	movers.Wait()
	if left := len(w.waiting()); left > 4 {
		t.Errorf("%d rows are left", left)
	}
}

func TestACancelledKeyMayBeEnqueuedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 {
		if e := w.enqueue(check("1", slot(4)), jobs.Reject); e.Action != jobs.ActionInserted {
			t.Errorf("%+v", e)
		}
		if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1")); err != nil || !found {
			t.Errorf("%t, %v", found, err)
		}
	}
	if list, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, ofOrder1)); err != nil || len(list) != 3 {
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
		got, found, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), test.at)
		if err != nil || !found || !got.Equal(test.want) || got.Location() != time.UTC {
			t.Errorf("to %s: %s, %t, %v", test.at, got, found, err)
		}
		list := w.waiting()
		if len(list) != 1 || list[0].ID != e.ID || !list[0].NextCheckAt.Equal(test.want) || !list[0].FirstCheckAt.Equal(slot(4)) {
			t.Errorf("to %s: %+v", test.at, list)
		}
	}
}

func TestPushBackMovesLaterOnlyAndUpToItsMaximumWait(t *testing.T) {
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
		got, found, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), test.at, test.delay)
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
	if at, found, err := w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(5)); found || err != nil || !at.IsZero() {
		t.Error(at, found, err)
	}
	if at, found, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(5), time.Hour); found || err != nil || !at.IsZero() {
		t.Error(at, found, err)
	}
	if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1")); found || err != nil {
		t.Error(found, err)
	}
	if n, err := w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "order", "1"); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestAnEnqueueThatPushesBackToLongAgoLeavesTheRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(4)), jobs.Keep)
	var action string
	err := w.db.GetContext(t.Context(), &action, `
		select action from prescient.enqueue('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ($1)::timestamptz::text, true) is not null then ('1960-01-01 00:00:00Z')::timestamptz end, on_conflict => 'push_back')`, now)
	if err != nil || action != "pushed_back" {
		t.Errorf("the action is %s, %v", action, err)
	}
	if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(4)) {
		t.Errorf("%+v", list)
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
	if _, found, err := w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(4).Add(-time.Second), time.Hour); !found || err != nil {
		t.Error(found, err)
	}
	w.enqueue(check("1", slot(4)), jobs.PushBack(0))
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), []jobs.Request{check("1", slot(4))}, jobs.PushBack(0)); err != nil {
		t.Error(err)
	}
	if after := place(); after != before {
		t.Errorf("the row was written: it moved from %s to %s", before, after)
	}
}
