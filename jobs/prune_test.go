package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestPruneTellsFirstAndThenDrops(t *testing.T) {
	pgtest.NotOnCitus(t, "how many rows a month has is known to a worker alone")
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(1)), jobs.Keep)
	w.fail()
	w.exec("select prescient.make_history_month('2027-02-10')")
	w.exec("update prescient.future_job_history set finished_at = '2027-02-10'")
	w.exec("analyze prescient.future_job_history")
	before := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	for _, dryRun := range []bool{true, false} {
		list, err := pruned(admin.New(w.client), dryRun)(t.Context(), w.db, before)
		found := false
		for _, p := range list {
			found = found || p == admin.PrunedPartition{Partition: "future_job_history_202702", Rows: 1}
		}
		if err != nil || !found {
			t.Errorf("dry run %t: %+v, %v", dryRun, list, err)
		}
		if n := len(w.history()); (n == 1) != dryRun {
			t.Errorf("dry run %t: %d rows are left", dryRun, n)
		}
	}
}

// reading begins a transaction that reads history, as a dump does, until end is called.
func (w *world) reading() (end func()) {
	w.t.Helper()
	tx := w.db.MustBegin()
	if _, err := tx.ExecContext(w.t.Context(), "select from prescient.future_job_history"); err != nil {
		w.t.Fatal(err)
	}
	return sync.OnceFunc(func() { _ = tx.Rollback() })
}

func TestPruneForgetsWhatOperatorsDidBeforeThatAndNothingThatGoesOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := time.Date(2020, time.March, 1, 0, 0, 0, 0, time.UTC)
	w.exec(`insert into prescient.action (at, finished_at, actor, what, target, plan, row_count, slots, schedules, events, outcome)
		select '2020-02-01', finished_at, 'ops', 'retry', target, '', 0, 0, 0, 0, outcome
		from (values
			('ended', timestamptz '2020-02-28 23:59Z', 'done'), ('ended later', '2027-03-01 00:00Z', 'failed'), ('goes on', null, 'running')
		) as a (target, finished_at, outcome)`)
	for _, test := range []struct {
		dryRun bool
		want   []admin.PrunedPartition
		left   string
	}{
		{true, []admin.PrunedPartition{{Partition: "action", Rows: 1}}, "ended, ended later, goes on"},
		{false, []admin.PrunedPartition{{Partition: "action", Rows: 1}}, "ended later, goes on"},
		{false, nil, "ended later, goes on"},
	} {
		list, err := pruned(admin.New(w.client), test.dryRun)(t.Context(), w.db, before)
		var left string
		if err == nil {
			err = w.db.GetContext(t.Context(), &left, "select string_agg(target, ', ' order by id) from prescient.action")
		}
		if err != nil || left != test.left || !slices.Equal(list, test.want) {
			t.Errorf("dry run %t: %+v, left: %s, %v", test.dryRun, list, left, err)
		}
	}
}

func TestPruneGivesWayToAReaderAndNobodyWaitsBehindIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 20 {
		w.enqueue(check(fmt.Sprint(i), slot(1)), jobs.Keep)
	}
	end := w.reading()
	defer end()
	pruned := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := admin.New(w.client).Prune(t.Context(), w.db, time.Now())
		pruned <- err
	}()
	var err error
	for i, ended := 0, false; !ended; i++ {
		select {
		case err = <-pruned:
			ended = true
		default:
			w.cancelAtOnce(fmt.Sprint(i % 20))
		}
	}
	if !errors.Is(err, admin.ErrHistoryInUse) || time.Since(began) > await.Limit {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	end()
	if _, err := admin.New(w.client).Prune(t.Context(), w.db, time.Now()); err != nil {
		t.Errorf("when nobody reads any more: %v", err)
	}
}

// cancelAtOnce cancels the check of an order, which must not wait for another session.
func (w *world) cancelAtOnce(key string) {
	w.t.Helper()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("set local lock_timeout = '500ms'")
	if _, err := w.client.Cancel(w.t.Context(), tx, keyOf(key)); err != nil {
		w.t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Error(err)
	}
}

func TestPruneOutlastsAShortReader(t *testing.T) {
	t.Parallel()
	w := setup(t)
	end := w.reading()
	time.AfterFunc(time.Second, end)
	if _, err := admin.New(w.client).Prune(t.Context(), w.db, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestPruneTriesOnceInATransactionOfTheCaller(t *testing.T) {
	t.Parallel()
	w := setup(t)
	defer w.reading()()
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	// A second try would fail differently: the server refuses every statement of a transaction after an error.
	if _, err := admin.New(w.client).Prune(t.Context(), tx, time.Now()); !errors.Is(err, admin.ErrHistoryInUse) {
		t.Error(err)
	}
}

func TestPruneStopsWithItsContext(t *testing.T) {
	t.Parallel()
	w := setup(t)
	defer w.reading()()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
	defer cancel()
	if _, err := admin.New(w.client).Prune(ctx, w.db, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A row that was given up can be put back by a retry, and then it must not repeat its steps.
func TestPruneForgetsWhatRulesHaveFiredForKeysThatDoNotWait(t *testing.T) {
	pgtest.NotOnCitus(t, "an insert from a select calls no function that reads a table")
	t.Parallel()
	w := setup(t)
	w.exec(`insert into prescient.rule (name, relation, definition) values ('remind', 'shop.orders', '{"rule": {"entity": "order"}}')`)
	w.enqueue(check("waits", slot(1)), jobs.Keep)
	w.exec(`insert into prescient.future_job_history
		(id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select row_number() over (), 'remind', 'order', key, '', '2020-03-03', '2020-03-03', 2, 6, interval '0', '2020-01-01', 'shop', outcome, '2020-03-03 00:01'
		from (values ('gave up', 'failed'), ('old', 'done')) as v (key, outcome)`)
	w.exec(`insert into prescient.rule_fired (job, entity_key, since, step, fired_at)
		select prescient.find_job('remind'), key, timestamptz '2020-01-01', 'first', fired_at
		from (values ('waits', timestamptz '2020-02-01'), ('new', '2020-03-02'), ('old', '2020-02-01'), ('gave up', '2020-02-01')) as v (key, fired_at)
		union all
		select 7, n::text, '2020-01-01', 'first', '2020-02-01' from generate_series(1, 10001) as n`)
	before := time.Date(2020, time.March, 1, 0, 0, 0, 0, time.UTC)
	for _, dryRun := range []bool{true, false} {
		list, err := pruned(admin.New(w.client), dryRun)(t.Context(), w.db, before)
		if err != nil || !slices.Contains(list, admin.PrunedPartition{Partition: "rule_fired", Rows: 10_002}) {
			t.Errorf("dry run %t: %+v, %v", dryRun, list, err)
		}
	}
	var left []string
	if err := w.db.Select(&left, "select entity_key from prescient.rule_fired order by entity_key"); err != nil || !slices.Equal(left, []string{"gave up", "new", "waits"}) {
		t.Errorf("left are %q, %v", left, err)
	}
}

// A prune whose time is bounded reads some of the entries, and the next one must not read the same.
func TestPrunesThatAreCutShortForgetTheLastOldEntry(t *testing.T) {
	pgtest.NotOnCitus(t, "a trigger of the test is on a distributed table")
	t.Parallel()
	w := setup(t)
	w.exec(`insert into prescient.rule_fired (job, entity_key, since, step, fired_at)
		select 7, to_char(n, 'FM000000'), '2020-01-01', 'first', case when n = 40000 then timestamptz '2020-02-01' else '2020-03-02' end
		from generate_series(1, 40000) as n;
		create sequence public.pages;
		create function public.cut() returns trigger language plpgsql as $$
		begin
			if nextval('public.pages') % 2 = 0 then
				raise exception 'the time is over';
			end if;
			return null;
		end $$;
		create trigger cut after delete on prescient.rule_fired for each statement execute function public.cut()`)
	before := time.Date(2020, time.March, 1, 0, 0, 0, 0, time.UTC)
	for try := 1; ; try++ {
		_, _ = admin.New(w.client).Prune(t.Context(), w.db, before) // one page of four
		var left int
		if err := w.db.Get(&left, "select count(*) from prescient.rule_fired where fired_at < $1", before); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if try == 500 { // some tries begin at random, and a quarter of these in the last page
			t.Fatal("the last entry is still there")
		}
	}
}

// pruned returns the call that prunes history, or with dryRun the one that changes nothing.
func pruned(c *admin.Client, dryRun bool) func(context.Context, jobs.DB, time.Time) ([]admin.PrunedPartition, error) {
	if dryRun {
		return c.PreviewPrune
	}
	return c.Prune
}
