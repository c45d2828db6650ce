package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// ofOrder1 selects the ended checks of one entity.
var ofOrder1 = admin.HistoryFilter{EntityName: "order", EntityKey: "1"}

// keys are the entities of a list, in its order.
func keys(list []jobs.FutureJob) (keys []string) {
	for _, j := range list {
		keys = append(keys, j.EntityKey)
	}
	return keys
}

func TestListNarrowsByEachFilterAndSortsBySlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, at := range []int{5, 3, 1, 4, 2} {
		job := check(fmt.Sprint(at), slot(at))
		if i%2 == 1 {
			job.JobExec = "alert"
		}
		if at == 4 {
			job.EntityName = "parcel"
		}
		if at == 5 {
			job.ItemKey = "a"
		}
		w.enqueue(job, jobs.Keep)
	}
	for name, test := range map[string]struct {
		filter admin.Filter
		want   []string
	}{
		"all":       {admin.Filter{}, []string{"1", "2", "3", "4", "5"}},
		"job":       {admin.Filter{JobExec: "alert"}, []string{"3", "4"}},
		"entity":    {admin.Filter{EntityName: "parcel"}, []string{"4"}},
		"item":      {admin.Filter{ItemKey: new("a")}, []string{"5"}},
		"no item":   {admin.Filter{ItemKey: new("")}, []string{"1", "2", "3", "4"}},
		"nothing":   {admin.Filter{JobExec: "nope"}, nil},
		"from":      {admin.Filter{From: slot(3)}, []string{"3", "4", "5"}},
		"to":        {admin.Filter{To: slot(3)}, []string{"1", "2"}},
		"from, to":  {admin.Filter{From: slot(2), To: slot(4)}, []string{"2", "3"}},
		"limit":     {admin.Filter{Limit: 2}, []string{"1", "2"}},
		"all of it": {admin.Filter{JobExec: "alert", EntityName: "order", From: slot(1), To: slot(5), Limit: 9}, []string{"3"}},
	} {
		got, err := seq.Collect(admin.New(w.client).List(t.Context(), w.db, test.filter))
		if diff := cmp.Diff(test.want, keys(got)); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// A list reads 1,000 rows at once, or 4 MiB of payloads.
func TestAListHasTheRowsOfAllPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operator := admin.New(w.client)
	const small, large = 2050, 100
	var list []jobs.Request
	for i := range small + large {
		list = append(list, anonymous(fmt.Sprint(i), slot(1+i/1500)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	w.exec(`update prescient.future_job set payload = to_jsonb(repeat('x', 60000)) where id in (
		select id from prescient.future_job order by next_check_at, job, id offset $1)`, small)
	all := operator.List(t.Context(), w.db, admin.Filter{})
	for range 2 { // a list can be read again
		got, err := seq.Collect(all)
		seen := map[string]bool{}
		for i, job := range got {
			seen[job.EntityKey] = job.NextCheckAt.Equal(slot(1 + i/1500))
		}
		if err != nil || len(got) != len(list) || len(seen) != len(list) || slices.Contains(slices.Collect(maps.Values(seen)), false) {
			t.Errorf("%d rows of %d checks, %v", len(got), len(seen), err)
		}
	}
	if got, err := seq.Collect(operator.List(t.Context(), w.db, admin.Filter{Limit: 1010})); err != nil || len(got) != 1010 {
		t.Errorf("%d rows of 1010, %v", len(got), err)
	}
	for name, test := range map[string]struct {
		filter admin.Filter
		want   int
		more   bool
	}{
		"the default":       {admin.Filter{}, 100, true},
		"a page of 4 MiB":   {admin.Filter{After: positionOf(t, operator, w, small), Limit: 200}, 70, true},
		"the last row":      {admin.Filter{After: positionOf(t, operator, w, small+large-1)}, 1, false},
		"behind the filter": {admin.Filter{To: slot(1), After: positionOf(t, operator, w, small)}, 0, false},
	} {
		page, next, err := operator.ListPage(t.Context(), w.db, test.filter)
		if err != nil || len(page) != test.want || next.IsZero() == test.more {
			t.Errorf("%s: %d rows, next %s, %v", name, len(page), next, err)
		}
	}

	for more, from := true, (admin.Position{}); more; more = !from.IsZero() {
		var err error
		if _, from, err = operator.CancelMany(t.Context(), w.db, admin.CancelFilter{EntityName: "order"}, from, 1000); err != nil {
			t.Fatal(err)
		}
	}
	w.exec("update prescient.future_job_history set finished_at = date_trunc('second', finished_at at time zone 'UTC') at time zone 'UTC'")
	ended, err := seq.Collect(operator.History(t.Context(), w.db, admin.HistoryFilter{}))
	seen := map[string]bool{}
	for _, row := range ended {
		seen[row.EntityKey] = true
	}
	if err != nil || len(ended) != small+large || len(seen) != small+large {
		t.Errorf("%d rows of %d checks have ended, %v", len(ended), len(seen), err)
	}
}

// positionOf returns the position behind the first n waiting rows.
func positionOf(t *testing.T, operator *admin.Client, w *world, n int) (at admin.Position) {
	t.Helper()
	for n > 0 {
		page, next, err := operator.ListPage(t.Context(), w.db, admin.Filter{After: at, Limit: n})
		if err != nil {
			t.Fatal(err)
		}
		n -= len(page)
		at = next
	}
	return at
}

func TestAListEndsWithItsFirstError(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range admin.New(w.client).List(ctx, w.db, admin.Filter{}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
}

func TestAPositionIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(1)), jobs.Keep)
	w.enqueue(check("2", slot(1)), jobs.Keep)
	_, next, err := admin.New(w.client).ListPage(t.Context(), w.db, admin.Filter{Limit: 1})
	if err != nil || !next.At().Equal(slot(1)) {
		t.Fatal(next, err)
	}
	if again, err := admin.ParsePosition(next.String()); err != nil || again != next {
		t.Errorf("%s, %v", again, err)
	}
	for _, text := range []string{
		"", "1_2", "1_2_3_4", "1_2_x", "+1_2_3", "01_2_3", " 1_2_3", "-1_2_3", "253402300800000000_1_1", "9223372036854775807_1_1", "1_2_9223372036854775808",
	} {
		if p, err := admin.ParsePosition(text); err == nil {
			t.Errorf("%q is %s", text, p)
		}
	}
}

// What ends or arrives between two pages shifts no row.
func TestRowsThatEndOrArriveBetweenTwoPagesShiftNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operator := admin.New(w.client)
	for i := range 10 {
		w.enqueue(check(fmt.Sprint(i), slot(1+i/4)), jobs.Keep)
	}
	var waiting []string
	filter := admin.Filter{Limit: 3}
	for more := true; more; more = !filter.After.IsZero() {
		page, next, err := operator.ListPage(t.Context(), w.db, filter)
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, keys(page)...)
		filter.After = next
		for _, key := range keys(page)[1:] { // also the row of the position
			if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf(key)); err != nil {
				t.Fatal(err)
			}
		}
		w.enqueue(check("new "+keys(page)[0], slot(1)), jobs.Keep)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "new 0", "4", "5", "6", "7", "8", "9"}, waiting); diff != "" {
		t.Error(diff)
	}
}

func TestShowAndTraceAreOfOneEntity(t *testing.T) {
	t.Parallel()
	w := setup(t)
	item := check("1", slot(2))
	item.ItemKey = "item"
	for _, job := range []jobs.Request{check("1", slot(3)), item, anonymous("1", slot(1)), check("2", slot(1))} {
		w.enqueue(job, jobs.Keep)
	}
	list, err := admin.New(w.client).Show(t.Context(), w.db, "order", "1")
	if err != nil || len(list) != 2 || list[0].ItemKey != "item" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := admin.New(w.client).Show(t.Context(), w.db, "order", "none"); err != nil || list != nil {
		t.Errorf("%+v, %v", list, err)
	}
	w.enqueue(check("1", slot(5)), jobs.Replace)
	w.fail()
	trace, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, ofOrder1))
	if err != nil || len(trace) != 4 || trace[3].Outcome != jobs.OutcomeReplaced || trace[0].Outcome != jobs.OutcomeFailed {
		t.Errorf("%+v, %v", trace, err)
	}
}

func TestHistoryTellsHowARowEnded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := check("1", slot(4))
	job.GroupKey = "group"
	if err := job.SetPayload(1); err != nil {
		t.Fatal(err)
	}
	e := w.enqueue(job, jobs.Keep)
	w.fail()
	list := w.history()
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	got := list[0]
	if got.ID != e.ID || got.Key() != job.Key() || got.GroupKey != "group" || string(got.Payload) != "1" || !got.Slot.Equal(slot(4)) ||
		!got.FirstCheckAt.Equal(slot(4)) || got.CheckCount != 2 || got.ErrorCount != 6 || got.LastError != "boom" || got.Spent != 3*time.Second ||
		got.Outcome != jobs.OutcomeFailed || got.Lateness != 2*time.Second || got.Duration != time.Second || got.Runner != "runner-1" ||
		got.FinishedAt.Location() != time.UTC || got.EnqueuedAt.After(got.FinishedAt) {
		t.Errorf("%+v", got)
	}
}

func TestHistoryNarrowsByEachFilterAndShowsTheLatestFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 4 {
		job := check(fmt.Sprint(i), slot(1))
		if i == 0 {
			job.ItemKey = "a"
		}
		w.enqueue(job, jobs.Keep)
		if i%2 == 0 {
			w.fail()
		} else if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		w.exec("update prescient.future_job_history set finished_at = $1 where entity_key = $2", slot(i), fmt.Sprint(i))
	}
	for name, test := range map[string]struct {
		filter admin.HistoryFilter
		want   []string
	}{
		"all":      {admin.HistoryFilter{}, []string{"3", "2", "1", "0"}},
		"outcome":  {admin.HistoryFilter{Outcome: jobs.OutcomeFailed}, []string{"2", "0"}},
		"job":      {admin.HistoryFilter{JobExec: "remind"}, []string{"3", "2", "1", "0"}},
		"no job":   {admin.HistoryFilter{JobExec: "nope"}, nil},
		"item":     {admin.HistoryFilter{ItemKey: new("a")}, []string{"0"}},
		"no item":  {admin.HistoryFilter{ItemKey: new("")}, []string{"3", "2", "1"}},
		"from, to": {admin.HistoryFilter{From: slot(1), To: slot(3)}, []string{"2", "1"}},
		"limit":    {admin.HistoryFilter{Limit: 1}, []string{"3"}},
	} {
		list, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, test.filter))
		var got []string
		for _, e := range list {
			got = append(got, e.EntityKey)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestStatsCountByJobAndOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 3 {
		w.enqueue(check(fmt.Sprint(i), slot(1)), jobs.Keep)
	}
	if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("0")); err != nil {
		t.Fatal(err)
	}
	w.fail()
	want := []admin.Stats{
		{JobExec: "remind", Outcome: jobs.OutcomeCancelled, Count: 1},
		{
			JobExec: "remind", Outcome: jobs.OutcomeFailed, Count: 2, LatenessP50: duration.Text(2 * time.Second), LatenessP99: duration.Text(2 * time.Second),
			DurationP50: duration.Text(time.Second), DurationP99: duration.Text(time.Second),
		},
	}
	got, err := admin.New(w.client).Stats(t.Context(), w.db, time.Time{}, time.Time{})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, err := admin.New(w.client).Stats(t.Context(), w.db, slot(0), slot(1)); err != nil || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRetryPutsFailedRowsBackWithACleanErrorCount(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := check("1", slot(4))
	if err := job.SetPayload("p"); err != nil {
		t.Fatal(err)
	}
	e := w.enqueue(job, jobs.Keep)
	w.enqueue(anonymous("2", slot(4)), jobs.Keep)
	w.enqueue(anonymous("2", slot(4)), jobs.Keep)
	w.fail()
	retried, waiting, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, time.Time{})
	if err != nil || retried != 3 || waiting != 0 {
		t.Errorf("%d retried, %d waiting, %v", retried, waiting, err)
	}
	if left := w.history(); len(left) != 0 {
		t.Errorf("left in history: %+v", left)
	}
	list := w.waiting()
	if len(list) != 3 {
		t.Fatalf("%d rows wait", len(list))
	}
	for _, j := range list {
		if !j.NextCheckAt.Equal(slot(1)) || !j.FirstCheckAt.Equal(slot(4)) || j.ErrorCount != 0 || j.CheckCount != 2 || j.LastError != "boom" || j.Spent != 3*time.Second {
			t.Errorf("%+v", j)
		}
		if j.EntityKey == "1" && (j.ID != e.ID || string(j.Payload) != `"p"` || j.Anonymous) || j.EntityKey == "2" && !j.Anonymous {
			t.Errorf("%+v", j)
		}
	}
	if n, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, time.Time{}); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	// A new row does not get the number of one that came back.
	if again := w.enqueue(check("3", slot(4)), jobs.Keep); again.ID <= list[2].ID {
		t.Errorf("id %d after %d", again.ID, list[2].ID)
	}
}

func TestRetryLeavesTheFailedRowOfAKeyThatWaitsAlready(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 2 {
		w.enqueue(check("1", slot(4)), jobs.Keep)
		w.fail()
	}
	w.enqueue(check("2", slot(4)), jobs.Keep)
	w.fail()
	now := w.enqueue(check("2", slot(9)), jobs.Keep)
	found, err := admin.New(w.client).PreviewRetry(t.Context(), w.db, admin.RetryFilter{All: true})
	if err != nil || found.Checks != 3 || found.Waiting != 2 {
		t.Errorf("the preview says %+v, %v", found, err)
	}
	retried, waiting, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, slot(3).Add(-time.Minute))
	if err != nil || retried != 1 || waiting != 2 {
		t.Errorf("%d retried, %d waiting, %v", retried, waiting, err)
	}
	if n := w.outcomes(); n[jobs.OutcomeFailed] != 2 {
		t.Errorf("history %v", n)
	}
	list := w.waiting()
	if len(list) != 2 || !list[0].NextCheckAt.Equal(slot(3)) || list[1].ID != now.ID || !list[1].NextCheckAt.Equal(slot(9)) || list[1].CheckCount != 0 {
		t.Errorf("%+v", list)
	}
}

func TestRetryPutsBackOneItemOrOneRowOfAnEntity(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, item := range []string{"", "first", "second"} {
		job := check("1", slot(1))
		job.ItemKey = item
		w.enqueue(job, jobs.Keep)
	}
	nameless := check("1", slot(1))
	nameless.Anonymous = true
	w.enqueue(nameless, jobs.Keep)
	w.fail()
	var anonymous int64
	if err := w.db.Get(&anonymous, "select id from prescient.future_job_history where item_key is null"); err != nil {
		t.Fatal(err)
	}
	operator := admin.New(w.client)
	for _, test := range []struct {
		filter admin.RetryFilter
		where  string
	}{
		{admin.RetryFilter{EntityName: "order", EntityKey: "1", ItemKey: new("")}, "item_key = ''"},
		{admin.RetryFilter{EntityName: "order", EntityKey: "1", ItemKey: new("second")}, "item_key = 'second'"},
		{admin.RetryFilter{ID: anonymous}, "item_key is null"},
	} {
		found, err := operator.PreviewRetry(t.Context(), w.db, test.filter)
		if err != nil || found.Checks != 1 {
			t.Errorf("%s: %+v, %v", test.where, found, err)
		}
		n, _, err := operator.Retry(t.Context(), w.db, test.filter, slot(1))
		var right bool
		if failed := w.db.Get(&right, "select bool_and("+test.where+") from prescient.future_job"); failed != nil {
			t.Fatal(failed)
		}
		if n != 1 || err != nil || !right {
			t.Errorf("%s: %d rows, the right one %t, %v", test.where, n, right, err)
		}
		w.exec("delete from prescient.future_job")
	}
}

func TestAFilterThatNamesNothingRetriesAndCancelsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(1)), jobs.Keep)
	w.fail()
	w.enqueue(check("2", slot(1)), jobs.Keep)
	operator := admin.New(w.client)
	if found, err := operator.PreviewRetry(t.Context(), w.db, admin.RetryFilter{Limit: 10}); err == nil || found.Checks != 0 {
		t.Errorf("a preview of a filter that only has a limit: %+v, %v", found, err)
	}
	if found, err := operator.PreviewCancel(t.Context(), w.db, admin.CancelFilter{}); err == nil || found.Checks != 0 {
		t.Errorf("a preview of a cancel that names nothing: %+v, %v", found, err)
	}
	if found, err := operator.PreviewAck(t.Context(), w.db, admin.AckFilter{}); err == nil || found.Rows != 0 {
		t.Errorf("a preview of an acknowledgement that names nothing: %+v, %v", found, err)
	}
	if n, _, err := operator.Retry(t.Context(), w.db, admin.RetryFilter{Limit: 10}, slot(2)); err == nil || n != 0 {
		t.Errorf("retried %d, %v", n, err)
	}
	if done, err := operator.CancelAll(t.Context(), w.db, admin.CancelFilter{}, admin.CancelOptions{}); err == nil || done.Cancelled != 0 {
		t.Errorf("cancelled %+v, %v", done, err)
	}
	if n := len(w.waiting()); n != 1 {
		t.Errorf("%d rows wait", n)
	}
}

func TestAPauseNamesItsActorOrTheRole(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operator := admin.New(w.client)
	tx := w.db.MustBegin()
	if err := jobs.SetActor(t.Context(), tx, "ada"); err != nil {
		t.Fatal(err)
	}
	if paused, err := operator.Pause(t.Context(), tx, "by.an.actor"); !paused || err != nil {
		t.Fatal(paused, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if paused, err := operator.Pause(t.Context(), w.db, "by.a.role"); !paused || err != nil {
		t.Fatal(paused, err)
	}
	var role string
	if err := w.db.Get(&role, "select session_user"); err != nil {
		t.Fatal(err)
	}
	list, err := operator.Paused(t.Context(), w.db)
	if err != nil || len(list) != 2 || list[0].PausedBy != role || list[1].PausedBy != "ada" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRetryChoosesByFilterAndFailedRowsAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		filter admin.RetryFilter
		want   []string
	}{
		"all":    {admin.RetryFilter{All: true}, []string{"1", "2", "3"}},
		"job":    {admin.RetryFilter{JobExec: "alert"}, []string{"3"}},
		"entity": {admin.RetryFilter{EntityName: "order", EntityKey: "2"}, []string{"2"}},
		"none":   {admin.RetryFilter{EntityName: "parcel"}, nil},
		"since":  {admin.RetryFilter{Since: slot(2)}, []string{"2", "3"}},
		"limit":  {admin.RetryFilter{All: true, Limit: 2}, []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for i := range 4 {
				job := check(fmt.Sprint(i), slot(1))
				if i == 3 {
					job.JobExec = "alert"
				}
				w.enqueue(job, jobs.Keep)
			}
			if _, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("0")); err != nil {
				t.Fatal(err)
			}
			w.fail()
			for i := range 4 {
				w.exec("update prescient.future_job_history set finished_at = $1 where entity_key = $2", slot(i), fmt.Sprint(i))
			}
			n, _, err := admin.New(w.client).Retry(t.Context(), w.db, test.filter, slot(1))
			if err != nil || int(n) != len(test.want) {
				t.Errorf("%d, %v", n, err)
			}
			for _, key := range test.want {
				if list, err := admin.New(w.client).Show(t.Context(), w.db, "order", key); err != nil || len(list) != 1 {
					t.Errorf("order %s: %v, %v", key, list, err)
				}
			}
			if n := len(w.waiting()); n != len(test.want) {
				t.Errorf("%d rows wait", n)
			}
		})
	}
}

// A failed check of a schedule could publish an event again. Resuming the schedule is the way to go on.
func TestChangesOfManyChecksLeaveThoseOfSchedules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	operator, all := admin.New(w.client), admin.CancelFilter{EntityName: "schedule"}
	own := jobs.Request{JobExec: "remind", EntityName: "schedule", EntityKey: "report", CheckAt: slot(1)}
	scheduled := own
	scheduled.JobExec = "schedule"
	w.enqueue(scheduled, jobs.Keep)
	w.enqueue(own, jobs.Keep)
	if n, err := w.client.CancelEntity(t.Context(), jobs.OwnTx(w.db), "schedule", "report"); err != nil || n != 1 {
		t.Errorf("%d checks of the entity are cancelled, %v", n, err)
	}
	w.enqueue(own, jobs.Keep)
	if found, err := operator.PreviewCancel(t.Context(), w.db, all); err != nil || found.Checks != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if done, err := operator.CancelAll(t.Context(), w.db, all, admin.CancelOptions{}); err != nil || done.Cancelled != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	w.enqueue(own, jobs.Keep)
	w.fail()
	if found, err := operator.PreviewRetry(t.Context(), w.db, admin.RetryFilter{All: true}); err != nil || found.Checks != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if retried, _, err := operator.Retry(t.Context(), w.db, admin.RetryFilter{All: true}, slot(2)); err != nil || retried != 1 {
		t.Errorf("%d retried, %v", retried, err)
	}
	if list := w.waiting(); len(list) != 1 || list[0].JobExec != "remind" {
		t.Errorf("after a retry: %+v", list)
	}
}

func TestRetriesAtOncePutEachRowBackOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var list []jobs.Request
	for i := range 100 {
		list = append(list, anonymous(fmt.Sprint(i), slot(1)))
	}
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	w.fail()
	first, err := w.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback() }()
	if n, _, err := admin.New(w.client).Retry(t.Context(), first, admin.RetryFilter{All: true}, time.Time{}); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	second := make(chan error, 1)
	go func() {
		n, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, slot(3))
		if n != 0 {
			err = errors.Join(err, fmt.Errorf("%d rows were put back twice", n))
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatal("it did not wait for the first one", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	if n := len(w.waiting()); n != 100 || len(w.history()) != 0 {
		t.Errorf("%d rows wait, %d are in history", n, len(w.history()))
	}
}

func TestReadingWithoutASchemaSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	empty, err := pgsql.Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = empty.Close() })
	if _, err := seq.Collect(admin.New(w.client).List(t.Context(), empty, admin.Filter{})); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Error(err)
	}
	if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(empty), check("1", slot(1))); !errors.Is(err, pgsql.ErrNotMigrated) {
		t.Error(err)
	}
}
