package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// calls counts the calls of functions by row.
type calls struct {
	mu sync.Mutex
	of map[string]int
}

func (c *calls) add(job jobs.FutureJob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[job.Key().String()]++
}

// registerCounted registers a job of each shape, whose function counts its calls and returns next. It returns their
// names.
func (w *world) registerCounted(c *calls, next func() *time.Time) []string {
	w.t.Helper()
	batch := func(rows []jobs.FutureJob) []jobs.Result {
		results := make([]jobs.Result, len(rows))
		for i, row := range rows {
			c.add(row)
			results[i].Next = next()
		}
		return results
	}
	w.registry.Register("one", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		c.add(job)
		return next(), nil
	}))
	w.registry.Register("tx", jobs.InTx(func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		c.add(job)
		return next(), nil
	}))
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) { return batch(rows), nil }))
	w.registry.Register("batch.tx", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
		return batch(rows), nil
	}))
	return []string{"one", "tx", "batch", "batch.tx"}
}

// checkCalls checks that a function without a transaction was called once for each row but the one with a key. A function
// with a transaction may be called again, because what it did is undone: in a batch with the row that is refused, and
// for any row whose record waits for a lock longer than a run does, which a busy machine may bring about.
func (w *world) checkCalls(c *calls, key string) {
	w.t.Helper()
	for row, n := range c.of {
		if n != 1 && !strings.HasSuffix(row, " "+key) && !strings.HasPrefix(row, "tx ") && !strings.HasPrefix(row, "batch.tx ") {
			w.t.Errorf("the function was called %d times for %s", n, row)
		}
	}
}

// trigger makes a trigger on a table of prescient, which executes statements before each change of a row with a key.
func (w *world) trigger(table, event, key, statements string) (drop func()) {
	w.t.Helper()
	pgtest.NotOnCitus(w.t, "it has no triggers on the tables of a distributed schema")
	w.db.MustExec(fmt.Sprintf(`
		create function public.interfere() returns trigger language plpgsql as $$
		begin
			if (coalesce(new, old)).entity_key = '%s' then
				%s
			end if;
			return coalesce(new, old);
		end
		$$;
		create trigger interfere before %s on prescient.%s for each row execute function public.interfere()`, key, statements, event, table))
	return func() { w.db.MustExec(`drop trigger interfere on prescient.` + table) }
}

// refusing are the ways in which an application's trigger refuses the outcome of a row.
var refusing = map[string]struct {
	table, event, statements string
	moves                    bool // the functions ask for another check
}{
	"an end that raises":        {"future_job_history", "insert", `raise exception 'no row 7 here';`, false},
	"a move that raises":        {"future_job", "update", `if new.check_count > old.check_count then raise exception 'no row 7 here'; end if;`, true},
	"an end that is suppressed": {"future_job", "delete", `return null;`, false},
	"a move that is suppressed": {"future_job", "update", `if new.check_count > old.check_count then return null; end if;`, true},
	"an end that breaks a rule": {"future_job", "delete", `raise exception 'no row 7 here' using errcode = 'check_violation';`, false},
}

func TestARowWhoseOutcomeIsRefusedHasAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	const rows, bad = 40, "7"
	for name, test := range refusing {
		for _, kind := range []slots.Kind{slots.KindRun, slots.KindCatchUp} {
			t.Run(fmt.Sprint(name, ", ", kind), func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.trigger(test.table, test.event, bad, test.statements)
				var c calls
				names := w.registerCounted(&c, func() *time.Time {
					if test.moves {
						return new(slot(9))
					}
					return nil
				})
				for _, job := range names {
					w.enqueue(job, slot(1), rows)
				}
				var result slots.Result
				if kind == slots.KindRun {
					result = w.run(slot(1))
				} else {
					w.clock.Set(slot(2))
					result = w.catchUp(slots.CatchUp{}).Results[0]
				}
				if result.State != slots.StateDone || result.Failed != int64(len(names)) || result.Checked != int64(len(names)*rows) || result.Yielded+result.Refused > 0 {
					t.Errorf("%+v", result)
				}
				w.checkCalls(&c, bad)
				failed := map[string]int{}
				for _, job := range w.waiting() {
					if job.NextCheckAt.Equal(slot(9)) {
						continue
					}
					failed[job.JobExec]++
					if job.EntityKey != bad || job.ErrorCount != 1 || !strings.Contains(job.LastError, job.Key().String()) || !strings.Contains(job.LastError, "trigger") && !strings.Contains(job.LastError, "no row 7 here") {
						t.Errorf("a row waits: %+v", job)
					}
				}
				if diff := cmp.Diff(map[string]int{"one": 1, "tx": 1, "batch": 1, "batch.tx": 1}, failed); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestARowOfWhichNothingCanBeRecordedIsLeftAndItsSlotStaysOpen(t *testing.T) {
	t.Parallel()
	const rows, bad = 40, "7"
	for name, statements := range map[string]string{"raised": `raise exception 'no row 7 here';`, "suppressed": `return null;`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			drop := w.trigger("future_job", "update or delete", bad, statements)
			var c calls
			names := w.registerCounted(&c, func() *time.Time { return nil })
			for _, job := range names {
				w.enqueue(job, slot(1), rows)
			}
			w.clock.Set(slot(1))
			began := time.Now()
			result, err := w.runner(func(c *slots.Config) { c.Lease = 2 * await.Limit }).Run(t.Context(), slot(1))
			if !errors.Is(err, slots.ErrRefused) || !strings.Contains(err.Error(), " on order 7") {
				t.Errorf("the run ended with %v", err)
			}
			if took := time.Since(began); took > await.Limit {
				t.Errorf("the run took %s", took)
			}
			if result.State != slots.StateOpen || result.Refused != int64(len(names)) || result.Finished != int64(len(names)*(rows-1)) || result.Failed > 0 {
				t.Errorf("%+v", result)
			}
			w.checkCalls(&c, bad)
			if left := w.waiting(); len(left) != len(names) || !left[0].NextCheckAt.Equal(slot(1)) {
				t.Errorf("%d rows wait: %+v", len(left), left)
			}
			w.clock.Set(slot(2))
			if trouble := w.status().Trouble; len(trouble) == 0 || trouble[0].State != slots.StateOpen || trouble[0].Waiting().N != int64(len(names)) {
				t.Errorf("the status: %+v", trouble)
			}
			drop()
			if caught := w.catchUp(slots.CatchUp{}); caught.Results[0].Finished != int64(len(names)) || caught.Results[0].State != slots.StateDone {
				t.Errorf("the catch-up: %+v", caught.Results[0])
			}
		})
	}
}

// The last outcomes of the claim take two messages, and the refused row is in the first.
func TestARefusedRowKeepsItsSlotOpenHoweverManyMessagesTheRecordTakes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const rows, payload = 40, 600_000
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i := range results {
			results[i].Payload = json.RawMessage(`"` + strings.Repeat("x", payload) + `"`)
		}
		return results, nil
	}))
	w.enqueue("job", slot(1), rows)
	var first string
	if err := w.db.Get(&first, `select entity_key from prescient.future_job order by id limit 1`); err != nil {
		t.Fatal(err)
	}
	drop := w.trigger("future_job", "update or delete", first, `raise exception 'not this row';`)
	w.clock.Set(slot(1))
	result, err := w.runner().Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrRefused) || result.State != slots.StateOpen || result.Finished != rows-1 {
		t.Errorf("%+v: %v", result, err)
	}
	drop()
	w.clock.Set(slot(2))
	caught := w.catchUp(slots.CatchUp{})
	if diff := cmp.Diff([]string{"12:15 done 1"}, states(caught)); diff != "" {
		t.Error(diff)
	}
}

func TestARequestWhoseNewRowIsSuppressedIsAnErrorOfItsRow(t *testing.T) {
	t.Parallel()
	const rows, bad = 40, "7"
	w := setup(t)
	var c calls
	names := w.registerCounted(&c, func() *time.Time { return nil })
	for _, job := range names {
		w.enqueue(job, slot(1), rows)
	}
	w.clock.Set(slot(1).Add(time.Second))
	for _, job := range names {
		w.enqueue(job, slot(3), 10)
	}
	w.trigger("future_job", "insert", bad, `return null;`)
	result, err := w.runner().Run(t.Context(), slot(1))
	if err != nil || result.State != slots.StateDone || result.Failed != int64(len(names)) || result.Finished != int64(len(names)*(rows-1)) {
		t.Errorf("%+v, %v", result, err)
	}
	w.checkCalls(&c, bad)
	waits := map[string]int{}
	for _, job := range w.waiting() {
		waits[fmt.Sprint(job.NextCheckAt.Equal(slot(3)), " ", job.ErrorCount, " ", job.EntityKey == bad)]++
	}
	if diff := cmp.Diff(map[string]int{"true 0 false": 9 * len(names), "false 1 true": len(names)}, waits); diff != "" {
		t.Error(diff)
	}
}

// A number takes ten bytes and is 131 kB long as a text.
const enormous = `
	alter domain prescient.payload drop constraint payload_is_at_most_1048576_bytes_as_text;
	update prescient.future_job f set payload = (select jsonb_agg(n) from (select 1e131071 as n from generate_series(1, 8300)) as n)
	where f.entity_key = '7';
	alter domain prescient.payload
		add constraint payload_is_at_most_1048576_bytes_as_text check (octet_length(value::text) <= 1048576) not valid`

func TestARowThatCannotBeReadHasAnErrorOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes rows of a gigabyte")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	const rows, bad = 8, "7"
	w := setup(t)
	var c calls
	w.registry.Register("batch", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			c.add(job)
		}
		return make([]jobs.Result, len(batch)), nil
	}), jobs.Retry(1))
	w.enqueue("batch", slot(1), rows)
	w.db.MustExec(enormous)
	w.clock.Set(slot(2))
	if result := w.catchUp(slots.CatchUp{}).Results[0]; result.State != slots.StateDone || result.Failed != 1 || result.Checked != rows {
		t.Errorf("%+v", result)
	}
	w.checkCalls(&c, "none")
	if len(c.of) != rows-1 {
		t.Errorf("the function was called for %d rows", len(c.of))
	}
	var at time.Time
	var failure string
	err := w.db.QueryRow(`select next_check_at, last_error from prescient.future_job where entity_key = '7' and error_count = 1`).Scan(&at, &failure)
	if err != nil || !strings.Contains(failure, "batch on order "+bad+": it cannot be read") {
		t.Errorf("the row waits for %s: %s, %v", at, failure, err)
	}
	if again := w.run(at); again.State != slots.StateDone || again.Failed != 1 {
		t.Errorf("the last attempt: %+v", again)
	}
	if n := w.count(`select count(*) from prescient.future_job_history where entity_key = '7' and outcome = 'failed'`); n != 1 {
		t.Errorf("%d rows have failed", n)
	}
}

// The group has rows in several claims. The call for it reads all of them.
func TestAGroupIsCheckedWithoutItsRowThatCannotBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a row of a gigabyte")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	const rows = 12
	w := setup(t)
	var c calls
	w.registry.Register("job", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			c.add(job)
		}
		return make([]jobs.Result, len(batch)), nil
	}))
	var list []jobs.Request
	for n := range rows {
		list = append(list, jobs.Request{JobExec: "job", EntityKey: fmt.Sprint(n)})
	}
	w.enqueueList(slot(1), list...)
	w.db.MustExec(enormous)
	result := w.run(slot(1), func(c *slots.Config) { c.Page, c.Lease = 3, time.Minute })
	if result.State != slots.StateDone || result.Failed != 1 || result.Finished != rows-1 {
		t.Errorf("%+v", result)
	}
	w.checkCalls(&c, "none")
	if len(c.of) != rows-1 {
		t.Errorf("the function was called for %d rows", len(c.of))
	}
}

// The first claim has a row of the group, and the last claim has the row that cannot be read. The run comes to that one
// long after a lease.
func TestAGroupDoesNotWaitForTheClaimOfARowThatCannotBeRead(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a row of a gigabyte")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	const rows = 15
	w := setup(t)
	var c calls
	w.registry.Register("job", jobs.Group("family", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		for _, job := range batch {
			c.add(job)
		}
		_, err := tx.ExecContext(ctx, "select pg_sleep(0.2)")
		return make([]jobs.Result, len(batch)), err
	}))
	var list []jobs.Request
	for n := range rows {
		list = append(list, jobs.Request{JobExec: "job", EntityName: "order", EntityKey: fmt.Sprint(100 + n), CheckAt: slot(1)})
	}
	list[rows-1].EntityKey = "7" // see enormous
	list[0].GroupKey, list[rows-1].GroupKey = "family", "family"
	if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(enormous)
	result := w.run(slot(1), func(c *slots.Config) { c.Page, c.Workers, c.Lease = 3, 1, time.Second })
	if result.State != slots.StateDone || result.Failed != 1 || result.Finished != rows-1 {
		t.Errorf("%+v", result)
	}
	// On a busy machine a lease may end before its checks do, which are then called again.
	if len(c.of) != rows-1 {
		t.Errorf("the function was called for %d rows", len(c.of))
	}
}

func TestACheckThatIsAskedForAndRefusedIsAnErrorOfTheRowThatAskedForIt(t *testing.T) {
	t.Parallel()
	const rows, bad = 40, "7"
	w := setup(t)
	var c calls
	w.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			c.add(job)
			results[i].Enqueue = []jobs.Request{{JobExec: "more", EntityName: "order", EntityKey: job.EntityKey, CheckAt: slot(3)}}
		}
		return results, nil
	}))
	w.enqueue("job", slot(1), rows)
	w.trigger("future_job", "insert", bad, `raise exception 'no row 7 here';`)
	if result := w.run(slot(1)); result.State != slots.StateDone || result.Failed != 1 || result.Finished != rows-1 || result.Checked != rows {
		t.Errorf("%+v", result)
	}
	w.checkCalls(&c, "none")
	waits := map[string]int{}
	for _, job := range w.waiting() {
		waits[job.JobExec+" "+job.LastError]++
	}
	want := map[string]int{"more ": rows - 1, "job job on order 7: its outcome cannot be recorded: pq: no row 7 here (P0001)": 1}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
}
