package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A key that is asked for more often than runs start late is due in every slot, and is checked in every one.
func TestAKeyThatIsAskedForAgainAndAgainIsCheckedInEverySlot(t *testing.T) {
	t.Parallel()
	ask := func(on jobs.OnConflict) func(w *world) error {
		return func(w *world) error {
			j := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "0"}
			j.CheckAt = w.clock.Now()
			_, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), j, on)
			return err
		}
	}
	for name, again := range map[string]func(w *world) error{
		"keep":                          ask(jobs.Keep),
		"replace":                       ask(jobs.Replace),
		"push back":                     ask(jobs.PushBack(0)),
		"push back with a maximum wait": ask(jobs.PushBack(time.Hour)),
		"SQL": func(w *world) error {
			_, err := w.db.ExecContext(w.t.Context(), `select prescient.enqueue('job', 'order', '0', check_at => case when set_config('prescient_caller.clock', ($1)::timestamptz::text, true) is not null then ($1)::timestamptz end)`, w.clock.Now())
			return err
		},
		"SQL, many": func(w *world) error {
			_, err := w.db.ExecContext(w.t.Context(),
				`select prescient.enqueue_many('{job}', '{order}', '{0}', item_keys => '{""}', check_ats => case when set_config('prescient_caller.clock', ($1)::timestamptz::text, true) is not null then (array[$1::timestamptz])::timestamptz[] end)`, w.clock.Now())
			return err
		},
		"push back by the key": func(w *world) error {
			_, _, err := w.client.PushBack(w.t.Context(), jobs.OwnTx(w.db), jobs.Key{JobExec: "job", EntityName: "order", EntityKey: "0"}, w.clock.Now(), 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			checks := 0
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				checks++
				return nil, nil
			}))
			w.enqueue("job", slot(1), 1)
			for n := range 10 {
				at := slot(n + 1)
				for i := range 5 { // the run begins five seconds late
					w.clock.Set(at.Add(time.Duration(i) * time.Second))
					if err := again(w); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := w.runner().Run(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				if checks != n+1 {
					t.Fatalf("%d checks in %d slots", checks, n+1)
				}
			}
		})
	}
}

// TestARequestIsHonouredByEveryRecordOfAnOutcome asks for each row again before it is checked, in every shape of a job,
// and with as many rows as are recorded one by one, by statements for many, and by such for rows that are alike.
func TestARequestIsHonouredByEveryRecordOfAnOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("it has 72 cases, with a database each")
	}
	t.Parallel()
	result := func(kind string, at time.Time) (*time.Time, error) {
		switch kind {
		case "next":
			return new(slotGrid.Next(at)), nil
		case "retry", "failed":
			return nil, errors.New("told to")
		}
		return nil, nil
	}
	shapes := map[string]func(r *jobs.Registry, kind string, options ...jobs.Option){
		"Row": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.Row(func(_ context.Context, j jobs.FutureJob) (*time.Time, error) { return result(kind, j.Slot) }), options...)
		},
		"InTx": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.InTx(func(_ context.Context, _ *sqlx.Tx, j jobs.FutureJob) (*time.Time, error) { return result(kind, j.Slot) }), options...)
		},
		"Each": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.Each(func(_ context.Context, _ *sqlx.Tx, j jobs.FutureJob) (*time.Time, error) { return result(kind, j.Slot) }), options...)
		},
		"Batch": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
				return results(rows, kind, result), nil
			}), options...)
		},
		"BatchInTx": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
				return results(rows, kind, result), nil
			}), options...)
		},
		"Group": func(r *jobs.Registry, kind string, options ...jobs.Option) {
			r.Register("job", jobs.Group("group", func(_ context.Context, _ *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
				return results(rows, kind, result), nil
			}), options...)
		},
	}
	kinds := map[string]struct {
		kind          string
		keep, replace int // the slot in which a row waits that was asked for by each; 0: it does not wait
		options       []jobs.Option
		unless        time.Duration
	}{
		"done":   {"done", 5, 5, nil, 0},
		"next":   {"next", 2, 5, nil, 0},
		"retry":  {"retry", 2, 5, nil, 0},
		"failed": {"failed", 5, 5, []jobs.Option{jobs.Retry(0)}, 0},

		"done, unless it was":   {"done", 0, 0, nil, time.Hour},
		"failed, unless it was": {"failed", 5, 5, []jobs.Option{jobs.Retry(0)}, time.Hour},
	}
	for shape, register := range shapes {
		for kind, test := range kinds {
			for _, n := range []int{2, 20} {
				t.Run(fmt.Sprint(shape, " ", kind, " ", n), func(t *testing.T) {
					t.Parallel()
					w := setup(t)
					register(w.registry, test.kind, test.options...)
					w.enqueue("job", slot(1), n)
					w.clock.Set(slot(1))
					for i, on := range []jobs.OnConflict{jobs.Keep, jobs.Replace} {
						var list []jobs.Request
						for k := i; k < n; k += 2 {
							j := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(k)}
							j.CheckAt, j.UnlessEndedWithin = slot(5), test.unless
							list = append(list, j)
						}
						if c, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, on); err != nil || c != (jobs.EnqueueCounts{Recorded: int64(n / 2)}) {
							t.Fatal(c, err)
						}
					}
					w.run(slot(1))
					at := map[string]time.Time{}
					for _, j := range w.waiting() {
						at[j.EntityKey] = j.NextCheckAt
					}
					if test.keep == 0 {
						if len(at) != 0 {
							t.Errorf("%d rows wait", len(at))
						}
						return
					}
					if len(at) != n {
						t.Errorf("%d rows wait", len(at))
					}
					for k := range n {
						want := slot([]int{test.keep, test.replace}[k%2])
						if got := at[fmt.Sprint(k)]; !got.Equal(want) {
							t.Fatalf("row %d waits for %s, want %s; history: %v", k, got, want, w.outcomes())
						}
					}
					w.run(slot(2))
				})
			}
		}
	}
}

// The row that comes of a request loses the oldest entries of its journal, and may go to another store.
func TestWhySaysThatARequestIsLeftOutOnlyIfItIs(t *testing.T) {
	t.Parallel()
	change := func(w *world) {
		for n := range 25 {
			w.db.MustExec("select prescient.reschedule('job', 'order', '0', check_at => $1)", slot(10+n))
		}
	}
	leave := func(w *world) { w.db.MustExec("delete from prescient.future_job") }
	for name, test := range map[string]struct {
		kind   string
		unless time.Duration
		before bool // the key has ended as done before
		then   func(w *world)
		want   []string // of each end, whether its request is left out
	}{
		"changed often":                              {"done", 0, false, change, []string{"done false"}},
		"gone to another store":                      {"done", 0, false, leave, []string{"done false"}},
		"conditional":                                {"done", time.Hour, false, nil, []string{"done true"}},
		"conditional, failed":                        {"failed", time.Hour, false, nil, []string{"failed false"}},
		"conditional, failed, changed often":         {"failed", time.Hour, false, change, []string{"failed false"}},
		"conditional, failed, gone to another store": {"failed", time.Hour, false, leave, []string{"failed false"}},
		"conditional, failed after an end as done":   {"failed", time.Hour, true, nil, []string{"done false", "failed true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			kind := "done"
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
				if kind == "failed" {
					return nil, errors.New("told to")
				}
				return nil, nil
			}), jobs.Retry(0))
			if test.before {
				w.enqueue("job", slot(1), 1)
				w.run(slot(1))
			}
			kind = test.kind
			w.enqueue("job", slot(2), 1)
			w.clock.Set(slot(2))
			again := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "0", UnlessEndedWithin: test.unless}
			again.CheckAt = slot(5)
			if e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), again); err != nil || e.Action != jobs.ActionRecorded {
				t.Fatal(e, err)
			}
			w.run(slot(2))
			if test.then != nil {
				test.then(w)
			}
			events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "0"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				if e.What == "done" || e.What == "failed" {
					got = append(got, fmt.Sprint(e.What, " ", e.LeftOut))
				} else if e.LeftOut {
					t.Errorf("%s is left out", e.What)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARetryLeavesAFailedRowInHistoryIfItsKeyWaitsByARequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, errors.New("told to")
	}), jobs.Retry(0))
	w.enqueue("job", slot(1), 1)
	w.clock.Set(slot(1))
	again := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "0"}
	again.CheckAt = slot(5)
	if e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), again); err != nil || e.Action != jobs.ActionRecorded {
		t.Fatal(e, err)
	}
	w.run(slot(1))
	retried, waiting, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, slot(3))
	if err != nil || retried != 0 || waiting != 1 {
		t.Errorf("%d were put back, %d wait already, %v", retried, waiting, err)
	}
	if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(5)) {
		t.Errorf("%+v", list)
	}
	if diff := cmp.Diff(map[jobs.Outcome]int{jobs.OutcomeFailed: 1}, w.outcomes()); diff != "" {
		t.Error(diff)
	}
}

// fullRequest returns a request that sets each field. The fields are found by reflection: a new one that a way of
// requests forgets would be lost in silence.
func fullRequest(at time.Time) jobs.Request {
	r := jobs.Request{CheckAt: at, Payload: []byte(`{"a": 1}`)}
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		switch field := v.Field(i); field.Interface().(type) {
		case string:
			field.SetString("the " + v.Type().Field(i).Name)
		case time.Duration:
			field.SetInt(int64(time.Hour))
		}
	}
	return r
}

func refuse(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("told to") }

// call makes a call in a transaction with an actor.
func (w *world) call(fn func(tx *sqlx.Tx) error) {
	w.t.Helper()
	if err := pgsql.InTx(w.t.Context(), w.db, func(tx *sqlx.Tx) error {
		return errors.Join(
			jobs.SetActor(w.t.Context(), tx, "ann"), jobs.SetTraceParent(w.t.Context(), tx, "00-1"), fn(tx))
	}); err != nil {
		w.t.Fatal(err)
	}
}

// columns returns the columns of the only row, without those that differ in any case, and some more.
func (w *world) columns(without ...string) (row map[string]any) {
	w.t.Helper()
	var text []byte
	if err := w.db.Get(&text, "select to_jsonb(f) - $1::text[] from prescient.future_job f",
		pq.Array(append(without, "id", "journal", "enqueued_at"))); err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &row); err != nil {
		w.t.Fatal(err)
	}
	return row
}

func TestARequestOnADueRowGivesEachColumnThatAnEnqueueGives(t *testing.T) {
	t.Parallel()
	for name, enqueue := range map[string]func(w *world, tx *sqlx.Tx, r jobs.Request) error{
		"Enqueue": func(w *world, tx *sqlx.Tx, r jobs.Request) error {
			_, err := w.client.Enqueue(t.Context(), tx, r)
			return err
		},
		"EnqueueMany": func(w *world, tx *sqlx.Tx, r jobs.Request) error {
			_, err := w.client.EnqueueMany(t.Context(), tx, []jobs.Request{r})
			return err
		},
		"EnqueueAll": func(w *world, tx *sqlx.Tx, r jobs.Request) error {
			_, err := w.client.EnqueueAll(t.Context(), tx, slices.Values([]jobs.Request{r}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r := fullRequest(slot(5).Add(time.Minute))
			w.registry.Register(r.JobExec, jobs.Row(refuse), jobs.Retry(0))
			w.call(func(tx *sqlx.Tx) error { return enqueue(w, tx, r) })
			want := w.columns()
			for column, value := range want {
				if value == nil && column != "last_error" && column != "request" {
					t.Errorf("the enqueue gives no %s: let it give one", column)
				}
			}
			w.call(func(tx *sqlx.Tx) error {
				_, err := w.client.Cancel(t.Context(), tx, r.Key())
				return err
			})

			due := jobs.Request{JobExec: r.JobExec, EntityName: r.EntityName, EntityKey: r.EntityKey, ItemKey: r.ItemKey}
			due.CheckAt = slot(1)
			if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), due); err != nil {
				t.Fatal(err)
			}
			w.clock.Set(slot(1))
			w.call(func(tx *sqlx.Tx) error { return enqueue(w, tx, r) })
			w.run(slot(1))
			if diff := cmp.Diff(want, w.columns()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPushBackKeepsEachColumnThatIsNotAboutTheCall(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clock time.Time
		of    []string // the columns that are about the call
	}{
		"of a waiting row": {slot(0), []string{"next_check_at"}},
		"of a due row":     {slot(1), []string{"next_check_at", "first_check_at", "requested_for", "requested_within"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r := fullRequest(slot(1))
			r.Within = time.Minute // in which no other slot is
			w.registry.Register(r.JobExec, jobs.Row(refuse), jobs.Retry(0))
			w.call(func(tx *sqlx.Tx) error {
				_, err := w.client.Enqueue(t.Context(), tx, r)
				return err
			})
			want := w.columns(test.of...)
			w.clock.Set(test.clock)
			w.call(func(tx *sqlx.Tx) error {
				_, found, err := w.client.PushBack(t.Context(), tx, r.Key(), slot(5), 0)
				if !found {
					t.Error("no such row waits")
				}
				return err
			})
			w.run(slot(1))
			if list := w.waiting(); len(list) != 1 || !list[0].NextCheckAt.Equal(slot(5)) {
				t.Errorf("%+v", list)
			}
			if diff := cmp.Diff(want, w.columns(test.of...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A request is honoured with the record of its row. If that failed, the row could never be recorded, and its slot would
// stay open. So enqueue refuses such a maximum wait, and a request that has one is honoured without it.
func TestARequestWithAMaximumWaitThatIsTooLongLeavesNoSlotOpen(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it changes no field of a composite type")
	const rows = 20
	for _, wait := range []string{"1000 years", "1000000 years", "1000000 years -360000000 days"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return new(slot(3)), nil }))
			w.enqueue("job", slot(1), rows)
			w.clock.Set(slot(1))
			var list []jobs.Request
			for k := range rows {
				list = append(list, jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(k), CheckAt: slot(5)})
			}
			if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, jobs.PushBack(time.Hour)); err != nil {
				t.Fatal(err)
			}
			w.db.MustExec("update prescient.future_job set request.max_wait = $1::interval", wait)
			if result := w.run(slot(1)); result.State != slots.StateDone || result.Rescheduled != rows {
				t.Errorf("%+v", result)
			}
			for _, row := range w.waiting() {
				if !row.NextCheckAt.Equal(slot(5)) || row.ErrorCount != 0 {
					t.Errorf("row %s waits for %s, with the error %s", row.EntityKey, row.NextCheckAt, row.LastError)
				}
			}
		})
	}
}

func results(rows []jobs.FutureJob, kind string, result func(kind string, at time.Time) (*time.Time, error)) []jobs.Result {
	list := make([]jobs.Result, len(rows))
	for i, r := range rows {
		list[i].Next, list[i].Err = result(kind, r.Slot)
	}
	return list
}

// The first enqueue of a job gives it its name. Until that transaction ends, other transactions see rows of the job, and
// no name.
func TestARequestIsHonouredThoughTheNameOfItsJobHasNotCommitted(t *testing.T) {
	t.Parallel()
	next := func(_ context.Context, j jobs.FutureJob) (*time.Time, error) { return new(slot(3)), nil }
	for name, test := range map[string]struct {
		check  jobs.CheckFunc
		on     jobs.OnConflict
		within time.Duration
		want   time.Time
	}{
		"done, keep":                        {done, jobs.Keep, 0, slot(5)},
		"done, keep within an hour":         {done, jobs.Keep, time.Hour, time.Time{}},
		"next, keep":                        {next, jobs.Keep, 0, slot(3)},
		"next, replace":                     {next, jobs.Replace, 0, slot(5)},
		"next, push back":                   {next, jobs.PushBack(0), 0, slot(5)},
		"next, push back an hour":           {next, jobs.PushBack(0), time.Hour, time.Time{}},
		"next, push back to a maximum wait": {next, jobs.PushBack(45 * time.Minute), 0, slot(4)},
	} {
		for _, n := range []int{2, 20} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.registry.Register("job", jobs.Row(test.check))
				w.enqueue("other", slot(4), n)
				first := w.db.MustBegin()
				t.Cleanup(func() { _ = first.Rollback() })
				first.MustExec(`select prescient.enqueue('job', 'other', '1', check_at => case when set_config('prescient_caller.clock', ($2)::timestamptz::text, true) is not null then ($1)::timestamptz end)`, slot(1), w.clock.Now())
				w.enqueue("job", slot(1), n)
				w.clock.Set(slot(1))
				var list []jobs.Request
				for k := range n {
					list = append(list, jobs.Request{
						JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(k), CheckAt: slot(5), Within: test.within,
					})
				}
				if c, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, test.on); err != nil || c != (jobs.EnqueueCounts{Recorded: int64(n)}) {
					t.Fatal(c, err)
				}
				w.run(slot(1))
				var rows []struct {
					Job string    `db:"job"`
					At  time.Time `db:"at"`
				}
				if err := w.db.Select(&rows, `
					select coalesce(j.name, 'job') as job, f.next_check_at as at
					from prescient.future_job f
					left join prescient.job j using (job)`); err != nil {
					t.Fatal(err)
				}
				waiting := map[string]int{}
				for _, row := range rows {
					waiting[row.Job]++
					at := row.At.UTC()
					inWindow := test.want.IsZero() && !at.Before(slot(5)) && at.Before(slot(9))
					if row.Job == "job" && !at.Equal(test.want) && !inWindow {
						t.Errorf("a row waits for %s, want %s", at, test.want)
					}
				}
				if diff := cmp.Diff(map[string]int{"job": n, "other": n}, waiting); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
