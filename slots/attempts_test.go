package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/httpjob"
)

// failing returns the result of the n-th check of a row: the first two fail, and all checks of the first row.
func failing(job jobs.FutureJob) error {
	if job.EntityKey == "0" || job.CheckCount+job.ErrorCount < 2 {
		return fmt.Errorf("boom %d of %s", job.ErrorCount+1, job.EntityKey)
	}
	return nil
}

func failingBatch(batch []jobs.FutureJob) []jobs.Result {
	results := make([]jobs.Result, len(batch))
	for i, job := range batch {
		results[i].Err = failing(job)
	}
	return results
}

// failingService answers like a check in another language.
func failingService(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, request *http.Request) {
		var asked struct {
			Rows []struct {
				ID         int64  `json:"id"`
				EntityKey  string `json:"entity_key"`
				CheckCount int    `json:"check_count"`
				ErrorCount int    `json:"error_count"`
			} `json:"rows"`
		}
		type result struct {
			ID    int64   `json:"id"`
			Error *string `json:"error"`
		}
		results := []result{}
		err := json.NewDecoder(request.Body).Decode(&asked)
		for _, row := range asked.Rows {
			answer := result{ID: row.ID}
			if err := failing(jobs.FutureJob{EntityKey: row.EntityKey, CheckCount: row.CheckCount, ErrorCount: row.ErrorCount}); err != nil {
				answer.Error = new(err.Error())
			}
			results = append(results, answer)
		}
		if err := errors.Join(err, json.NewEncoder(rw).Encode(map[string]any{"results": results})); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Every error of a row can be read later, also of a row that succeeded in the end, for every shape of job.
func TestEveryAttemptsErrorIsKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	retry := jobs.Retry(2)
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) { return nil, failing(job) }), retry)
	w.registry.Register("one.tx", jobs.InTx(func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) { return nil, failing(job) }), retry)
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return failingBatch(batch), nil
	}), retry)
	tx := func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		return failingBatch(batch), nil
	}
	w.registry.Register("batch.tx", jobs.BatchInTx(tx), retry)
	w.registry.Register("group", jobs.Group("family", tx), retry)
	err := httpjob.Register(w.registry, httpjob.Config{
		Name: "http", URL: failingService(t).URL, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}, retry)
	if err != nil {
		t.Fatal(err)
	}
	shapes := []string{"one", "one.tx", "batch", "batch.tx", "group", "http"}
	for _, job := range shapes {
		w.enqueue(job, slot(1), 2)
	}
	for _, n := range []int{1, 2, 4} { // 1 and 2 slots later
		w.run(slot(n))
	}
	for _, job := range shapes {
		if diff := cmp.Diff(w.errors(job, "0"), []string{"retry 1: boom 1 of 0", "retry 2: boom 2 of 0", "failed 4: boom 3 of 0"}); diff != "" {
			t.Errorf("%s, which gave up: %s", job, diff)
		}
		if diff := cmp.Diff(w.errors(job, "1"), []string{"retry 1: boom 1 of 1", "retry 2: boom 2 of 1", "done 4: "}); diff != "" {
			t.Errorf("%s, which was done: %s", job, diff)
		}
	}
	list, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, admin.HistoryFilter{}))
	if err != nil || len(list) != 2*len(shapes) {
		t.Fatal(len(list), err)
	}
	for _, e := range list {
		want := []admin.FailedAttempt{{Slot: slot(1), Error: "boom 1 of " + e.EntityKey}, {Slot: slot(2), Error: "boom 2 of " + e.EntityKey}}
		for i := range e.Attempts {
			if e.Attempts[i].Runner == "" {
				t.Errorf("%s: nobody made attempt %d", e.JobExec, i)
			}
			e.Attempts[i].Runner = ""
		}
		if diff := cmp.Diff(want, e.Attempts); diff != "" {
			t.Errorf("%s %s in history: %s", e.JobExec, e.EntityKey, diff)
		}
	}
}

// errors tells the story of a row by its checks.
func (w *world) errors(job, key string) (list []string) {
	w.t.Helper()
	events, err := admin.New(w.client).Timeline(w.t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: key, JobExec: job})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Ran {
			list = append(list, fmt.Sprintf("%s %d: %s", e.What, int(e.Slot.Sub(slot(0))/(15*time.Minute)), e.Error))
		}
	}
	return list
}

// However long errors are and however many, a row stays small.
func TestTheErrorsOfARowAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("long", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New(strings.Repeat("e", 1<<20))
	}), jobs.Retry(40), jobs.MaxBackOff(1))
	w.enqueue("long", slot(1), 1)
	for n := range 41 {
		w.run(slot(n + 1))
	}
	list, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, admin.HistoryFilter{}))
	if err != nil || len(list) != 1 || len(list[0].Attempts) != 20 {
		t.Fatal(list, err)
	}
	size := 0
	for _, a := range list[0].Attempts {
		size += len(a.Error)
	}
	if size > 64<<10 || size == 0 {
		t.Errorf("the attempts have %d bytes", size)
	}
}

// A row that failed and was cancelled since needs nothing more.
func TestAJobTellsHowManyFailedRowsOfItsLastSlotWereCancelled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("fails", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("down") }))
	w.enqueue("fails", slot(1), 2)
	w.clock.Set(slot(1))
	w.run(slot(1))
	for n := range int64(3) {
		list, err := w.ledger.Jobs(t.Context(), slot(0).AddDate(-10, 0, 0)) // rows end on the clock of the database
		if err != nil || len(list) != 1 || list[0].LastFailed != 2 || list[0].LastSettled != n {
			t.Errorf("with %d rows cancelled: %+v, %v", n, list, err)
		}
		w.db.MustExec("select prescient.cancel('fails', 'order', $1)", strconv.FormatInt(n, 10))
	}
}

// The rows of the last slot that were given up are told apart from those that wait to be tried again.
func TestAJobTellsHowManyRowsOfItsLastSlotWereGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("fails", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("down") }), jobs.Retry(1))
	w.enqueue("fails", slot(1), 3)
	for n, want := range []int64{0, 3} {
		w.clock.Set(slot(n + 1))
		w.run(slot(n + 1))
		list, err := w.ledger.Jobs(t.Context(), slot(0).AddDate(-10, 0, 0)) // rows end on the clock of the database
		if err != nil || len(list) != 1 || list[0].LastFailed != 3 || list[0].LastGaveUp != want {
			t.Errorf("after slot %d, want %d rows given up: %+v, %v", n+1, want, list, err)
		}
	}
}
