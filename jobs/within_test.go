package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots/grid"
)

// windows are jobs for which some slots will do: on slots and off, before now, around it and after it, with and without a key.
// A short test has a third of them.
func windows() (list []jobs.Request) {
	random, n := rand.New(rand.NewPCG(31, 32)), 200
	if testing.Short() {
		n = 66
	}
	for i := range n {
		j := check(fmt.Sprint(`o'"\{},é `, i), now.Add(time.Duration(random.IntN(96)-48)*30*time.Minute))
		j.CheckAt = j.CheckAt.Add(time.Duration(random.IntN(2)) * time.Duration(random.Int64N(int64(time.Hour))))
		j.Within = []time.Duration{0, time.Second, 15 * time.Minute, time.Hour, 36 * time.Hour, 366 * 24 * time.Hour}[random.IntN(6)]
		switch i % 3 {
		case 1:
			j.ItemKey = fmt.Sprint("item ", i%4)
		case 2:
			j.Anonymous = true
		}
		list = append(list, j)
	}
	return list
}

// placed is where a job was put, and what is known of why.
type placed struct {
	Key         string
	Slot, First time.Time
	For         time.Time
	Within      time.Duration
}

func placesOf(list []jobs.Request) (all []placed) {
	byKey := func(a, b jobs.Request) int { return strings.Compare(a.EntityKey, b.EntityKey) }
	for _, j := range slices.SortedFunc(slices.Values(list), byKey) {
		slot := spread.Key(j.Key()).PickSlot(grid.Default, j.CheckAt, j.Within, slot(1))
		all = append(all, placed{j.EntityKey + j.ItemKey, slot, slot, grid.RoundMicro(j.CheckAt), j.Within})
	}
	return all
}

func (w *world) placed() (all []placed) {
	w.t.Helper()
	var list []struct {
		Key              string
		Slot, First, For time.Time
		Seconds          int64
	}
	err := w.db.SelectContext(w.t.Context(), &list, `
		select entity_key || coalesce(item_key, '') as key, next_check_at as slot, first_check_at as first,
			coalesce(requested_for, first_check_at) as for, coalesce(requested_within, 0) as seconds
		from prescient.future_job order by entity_key collate "C", item_key collate "C"`)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range list {
		all = append(all, placed{p.Key, p.Slot.UTC(), p.First.UTC(), p.For.UTC(), time.Duration(p.Seconds) * time.Second})
	}
	return all
}

// sqlMany are the arguments of enqueue_many.
func sqlMany(list []jobs.Request) []any {
	var execs, names, keys, times, payloads, items, groups, withins []*string
	for _, j := range list {
		execs, names, keys = append(execs, &j.JobExec), append(names, &j.EntityName), append(keys, &j.EntityKey)
		times = append(times, new(j.CheckAt.Format(time.RFC3339Nano)))
		payloads, groups = append(payloads, nil), append(groups, nil)
		item, within := &j.ItemKey, new(fmt.Sprintf("%d minutes %d", j.Within/time.Minute, j.Within%time.Minute/time.Second))
		if j.Anonymous {
			item = nil
		}
		if j.Within == 0 {
			within = nil
		}
		items, withins = append(items, item), append(withins, within)
	}
	return []any{
		pq.Array(execs), pq.Array(names), pq.Array(keys), pq.Array(times), pq.Array(payloads), pq.Array(items), pq.Array(groups), now,
		pq.Array(withins),
	}
}

func TestEveryWayToEnqueueChoosesTheSameSlotOfAWindow(t *testing.T) {
	t.Parallel()
	each := func(enqueue func(w *world, j jobs.Request) error) func(w *world, list []jobs.Request) error {
		return func(w *world, list []jobs.Request) (err error) {
			for _, j := range list {
				err = errors.Join(err, enqueue(w, j))
			}
			return err
		}
	}
	one := func(on jobs.OnConflict) func(w *world, list []jobs.Request) error {
		return each(func(w *world, j jobs.Request) error {
			_, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), j, on)
			return err
		})
	}
	many := func(on jobs.OnConflict) func(w *world, list []jobs.Request) error {
		return func(w *world, list []jobs.Request) error {
			_, err := w.client.EnqueueMany(w.t.Context(), jobs.OwnTx(w.db), list, on)
			return err
		}
	}
	stream := func(on jobs.OnConflict) func(w *world, list []jobs.Request) error {
		return func(w *world, list []jobs.Request) error {
			_, err := w.client.EnqueueAll(w.t.Context(), jobs.OwnTx(w.db), slices.Values(list), on)
			return err
		}
	}
	for name, enqueue := range map[string]func(w *world, list []jobs.Request) error{
		"one by one":              one(jobs.Keep),
		"one by one, replace":     one(jobs.Replace),
		"one by one, push back":   one(jobs.PushBack(time.Hour)),
		"one by one, or fail":     one(jobs.Reject),
		"many at once":            many(jobs.Keep),
		"many at once, replace":   many(jobs.Replace),
		"many at once, push back": many(jobs.PushBack(time.Hour)),
		"a stream":                stream(jobs.Keep),
		"a stream, replace":       stream(jobs.Replace),
		"a stream where one waits": func(w *world, list []jobs.Request) error {
			_, err := w.client.Enqueue(w.t.Context(), jobs.OwnTx(w.db), list[0])
			return errors.Join(err, stream(jobs.Keep)(w, list))
		},
		"a kind": each(func(w *world, j jobs.Request) error {
			_, err := jobs.Kind[int]{Name: j.JobExec}.Enqueue(w.t.Context(), w.client, jobs.OwnTx(w.db), j, 7)
			return err
		}),
		"SQL": each(func(w *world, j jobs.Request) error {
			item, within := &j.ItemKey, new(fmt.Sprint(int64(j.Within/time.Second), " seconds"))
			if j.Anonymous {
				item = nil
			}
			_, err := w.db.ExecContext(w.t.Context(), "select prescient.enqueue($1, $2, $3, item_key => $5, check_at => case when set_config('prescient_caller.clock', ($6)::timestamptz::text, true) is not null then ($4)::timestamptz end, within => $7)",
				j.JobExec, j.EntityName, j.EntityKey, j.CheckAt, item, now, within)
			return err
		}),
		"SQL, many at once": func(w *world, list []jobs.Request) error {
			_, err := w.db.ExecContext(w.t.Context(), "select prescient.enqueue_many($1, $2, $3, item_keys => $6, check_ats => case when set_config('prescient_caller.clock', ($8)::timestamptz::text, true) is not null then ($4)::timestamptz[] end, group_keys => $7, withins => $9, payloads => $5)", sqlMany(list)...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, list := setup(t), windows()
			if err := enqueue(w, list); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(placesOf(list), w.placed()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHowASessionWritesValuesIsOfNoAccountForAWindow(t *testing.T) {
	t.Parallel()
	w, list := setup(t), windows()
	for name, value := range map[string]string{
		"bytea_output": "escape", "datestyle": "SQL, DMY", "intervalstyle": "sql_standard", "timezone": "Asia/Kathmandu", "extra_float_digits": "-15",
	} {
		set := fmt.Sprintf("alter database %%I set %s = %s", name, pq.QuoteLiteral(value))
		w.db.MustExec("do $$ begin execute format(" + pq.QuoteLiteral(set) + ", current_database()); end $$")
	}
	w.db.SetMaxIdleConns(0) // what is connected from now on has them
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list[:len(list)/2]); err != nil {
		t.Fatal(err)
	}
	for _, j := range list[len(list)/2:] {
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), j); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(placesOf(list), w.placed()); diff != "" {
		t.Error(diff)
	}
}

// Enqueuing a waiting key again with the same arguments moves nothing, by any policy.
func TestAKeyThatIsAskedForAgainKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]jobs.OnConflict{"keep": jobs.Keep, "replace": jobs.Replace, "push back": jobs.PushBack(0)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, list := setup(t), windows()
			list = slices.DeleteFunc(list, func(j jobs.Request) bool { return j.Anonymous })
			for range 3 {
				if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, on); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(placesOf(list), w.placed()); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

func TestAKeyIsPushedBackToItsPlaceInTheLaterWindow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 50 {
		row := check(fmt.Sprint(i), slot(4))
		row.Within = 4 * time.Hour
		first := w.enqueue(row, jobs.Keep)
		row.CheckAt = slot(30)
		want := spread.Key(row.Key()).PickSlot(grid.Default, slot(30), row.Within, slot(1))
		if limit := first.Slot.Add(8 * time.Hour); want.After(limit) {
			want = limit
		}
		if got := w.enqueue(row, jobs.PushBack(8*time.Hour)); !got.Slot.Equal(want) || got.Action != jobs.ActionPushedBack || got.ID != first.ID {
			t.Errorf("%+v, want slot %s", got, want)
		}
		row.CheckAt = slot(4) // never earlier
		if got := w.enqueue(row, jobs.PushBack(8*time.Hour)); !got.Slot.Equal(want) {
			t.Errorf("%+v, want slot %s", got, want)
		}
	}
}

func TestAWindowThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, within := range []time.Duration{-1, -time.Hour, time.Millisecond, time.Hour + 1, 366*24*time.Hour + time.Second, 1<<63 - 1} {
		row := check("1", slot(1))
		row.Within = within
		_, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row)
		if diff := cmp.Diff(map[string]string{"within": "must be whole seconds, up to 366 days"}, fieldErrors(err)); diff != "" {
			t.Errorf("%s: %v", within, err)
		}
	}
	for _, at := range []time.Time{now.Add(jobs.DefaultHorizon - time.Hour), grid.Max().Add(-time.Hour)} {
		row := check("1", at)
		row.Within = 2 * time.Hour
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), row); fieldErrors(err)["check_at"] == "" {
			t.Errorf("a window from %s on that ends beyond the horizon: %v", at, err)
		}
	}
	w.enqueue(check("2", slot(4)), jobs.Keep)
	for _, within := range []string{"-1 second", "-1 month", "-100 years", "367 days", "60 years", "100 years", "170000000 years"} {
		for _, query := range []string{
			"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-02', within => $1)",
			"select prescient.push_back('remind', 'order', '2', check_at => '2030-03-02', within => $1)",
			"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{\"\"}', check_ats => '{2030-03-02}', withins => array[$1]::interval[])",
		} {
			if _, err := w.db.ExecContext(t.Context(), query, within); err == nil || !strings.Contains(err.Error(), "it must be from 0 to 366 days") {
				t.Errorf("a window of %s for %s: %v", within, query, err)
			}
		}
	}
}

func TestTheStoryTellsOfTheWindowToTheEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	row := check("1", now.Add(time.Hour))
	row.Within = 90 * time.Minute
	want := admin.TimelineEntry{What: "enqueued", Slot: spread.Key(row.Key()).PickSlot(grid.Default, row.CheckAt, row.Within, slot(1)), RequestedFor: row.CheckAt, Within: row.Within}
	w.enqueue(row, jobs.Keep)
	tell := func(stage string) {
		t.Helper()
		events, err := admin.New(w.client).Timeline(t.Context(), w.db, keyOf("1"))
		if err != nil || len(events) == 0 {
			t.Fatal(stage, err)
		}
		got := admin.TimelineEntry{What: events[0].What, Slot: events[0].Slot, RequestedFor: events[0].RequestedFor, Within: events[0].Within}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", stage, diff)
		}
		for _, e := range events[1:] {
			if e.Within != 0 {
				t.Errorf("%s: %+v", stage, e)
			}
		}
	}
	tell("waiting")
	w.exec(`with gone as (delete from prescient.future_job returning *)
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
			error_count, last_error, spent, enqueued_at, enqueued_by, requested_for, requested_within, outcome, lateness, duration, runner)
		select id, 'remind', entity_name, entity_key, item_key, first_check_at, next_check_at, 2, 6, 'boom', '3 s',
			enqueued_at, enqueued_by, requested_for, requested_within, 'failed', '2 s', '1 s', 'runner-1' from gone`)
	tell("failed")
	if _, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{All: true}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	tell("retried")
	if found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1")); err != nil || !found {
		t.Fatal(found, err)
	}
	tell("cancelled")
}

func TestAChangeOfTheWidthMovesWhatWasPlacedUpwardOnly(t *testing.T) {
	t.Parallel()
	w, list := setup(t), windows()
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	before := w.placed()
	w.exec("select prescient.set_width('1 hour', $1)", now)
	hours, err := grid.New(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		before[i].Slot = hours.Ceil(before[i].Slot)
	}
	if diff := cmp.Diff(before, w.placed()); diff != "" {
		t.Fatal(diff)
	}
	// The next who asks has a choice of the new slots.
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		row := check(fmt.Sprint("new ", i), slot(9))
		row.Within = 6 * time.Hour
		got, err := client.Enqueue(t.Context(), jobs.OwnTx(w.db), row)
		if want := spread.Key(row.Key()).PickSlot(hours, row.CheckAt, row.Within, slot(1)); err != nil || !got.Slot.Equal(want) {
			t.Errorf("slot %s, want %s, %v", got.Slot, want, err)
		}
	}
}

// narrowing is a transaction of another session that narrows the slots just before a stream is copied.
type narrowing struct {
	*sqlx.Tx
	narrow func()
}

func (n narrowing) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	n.narrow()
	return n.Tx.PrepareContext(ctx, query)
}

// A row in a slot of the grid before would be on the new one, too, and late.
func TestAWidthThatIsChangedWhileAStreamBeginsMakesNoRowLate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tried := 0
	db := narrowing{tx, func() {
		_, err := w.db.ExecContext(t.Context(), "set local lock_timeout = '100ms'; select prescient.set_width('5 minutes')")
		if err != nil && !pg.IsLockTimeout(err) {
			t.Error(err)
		}
		tried++
	}}
	list := []jobs.Request{check("1", slot(2).Add(time.Minute))}
	if _, err := w.client.EnqueueAll(t.Context(), db, slices.Values(list)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var late int
	if err := w.db.GetContext(t.Context(), &late, "select count(*) from prescient.future_job where next_check_at > prescient.slot_ceil(requested_for)"); err != nil {
		t.Fatal(err)
	}
	if tried != 1 || late > 0 {
		t.Errorf("%d of 1 row is later than its slot, tried %d times", late, tried)
	}
}

// A width that divides the one before leaves no row off the grid that says so.
func TestAStreamGoesByTheWidthThatTheDatabaseHasNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec("select prescient.set_width('5 minutes', $1)", now)
	list := windows()
	for i := range list {
		list[i].CheckAt = list[i].CheckAt.Add(time.Minute)
	}
	if _, err := w.client.EnqueueAll(t.Context(), jobs.OwnTx(w.db), slices.Values(list)); err != nil {
		t.Fatal(err)
	}
	streamed := w.placed()
	w.exec("delete from prescient.future_job")
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.placed(), streamed); diff != "" {
		t.Error(diff)
	}
}

// In SQL an instant may be one that Go and JSON have not.
func TestTheStoryOfACheckThatWasAskedForBeforeAllTimesIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, at := range []string{"-infinity", "0044-03-15 12:00:00Z BC"} {
		key := fmt.Sprint(i)
		w.exec(`select prescient.enqueue('remind', 'order', $1, check_at => $2::text::timestamptz)`, key, at)
		for _, stage := range []string{"waiting", "cancelled"} {
			events, err := admin.New(w.client).Timeline(t.Context(), w.db, keyOf(key))
			if err != nil || len(events) != 2 || events[0].What != "enqueued" || !events[0].RequestedFor.Equal(events[0].At) || events[1].What != stage {
				t.Errorf("asked for %s, %s: %v %+v", at, stage, err, events)
			}
			w.exec(`select prescient.cancel('remind', 'order', $1)`, key)
		}
	}
}
