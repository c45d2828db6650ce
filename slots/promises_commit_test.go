package slots_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// lateCommits registers a job for each way to record.
var lateCommits = map[string]struct {
	rows     int
	register func(registry *jobs.Registry)
}{
	"a few":      {3, func(r *jobs.Registry) { r.Register("job", jobs.Row(done)) }},
	"a page":     {20, func(r *jobs.Registry) { r.Register("job", jobs.Row(done)) }},
	"many pages": {200, func(r *jobs.Registry) { r.Register("job", jobs.Row(done)) }},
	"with what it asks for": {20, func(r *jobs.Registry) {
		more := jobs.Request{JobExec: "more", EntityName: "order", EntityKey: "1"}
		more.CheckAt = slot(5)
		r.Register("job", jobs.Batch(func(_ context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
			results := make([]jobs.Result, len(rows))
			results[0].Enqueue = []jobs.Request{more}
			return results, nil
		}))
	}},
	"in the transaction of a row":   {3, func(r *jobs.Registry) { r.Register("job", jobs.InTx(doneTx)) }},
	"in the transaction of a batch": {20, func(r *jobs.Registry) { r.Register("job", jobs.BatchInTx(oneByOne(doneTx))) }},
	"in the transaction of a group": {3, func(r *jobs.Registry) { r.Register("job", jobs.Group("family", oneByOne(doneTx))) }},
}

func doneTx(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }

// counter counts the rows that an observer is told of.
type counter struct{ rows atomic.Int64 }

func (c *counter) Recorded(list []slots.Recorded) {
	for _, r := range list {
		c.rows.Add(r.Rows)
	}
}

func (c *counter) Ran(slots.Result, error) {}

// A connection that breaks does not end what the server carries out for it.
func TestARecordThatIsCommittedAfterItsConnectionHasBrokenIsCounted(t *testing.T) {
	t.Parallel()
	for name, test := range lateCommits {
		for _, seconds := range []float64{0.06, 0.6} {
			if testing.Short() && seconds < 0.5 {
				continue
			}
			t.Run(fmt.Sprint(name, " ", seconds), func(t *testing.T) {
				t.Parallel()
				w := setupAt(t, pgtest.Direct(t))
				test.register(w.registry)
				w.enqueue("job", slot(1), test.rows)
				network := w.network()
				db := network.open()
				w.breaksInCommit(seconds, func() { network.cutBut(link{}) })
				var told counter
				result := w.run(slot(1), func(c *slots.Config) { c.DB, c.Observer = db, &told })
				all := int64(test.rows)
				if result.Finished != all || result.Checked != all || result.Yielded != 0 || result.Lost != 0 || told.rows.Load() != all {
					t.Errorf("%+v, and the observer was told of %d", result, told.rows.Load())
				}
				if outcomes := w.outcomes(); outcomes[jobs.OutcomeDone] != test.rows {
					t.Errorf("%v", outcomes)
				}
			})
		}
	}
}

// Locked rows are released during the commit: they are no part of it, and are recorded after it.
func TestRowsThatWereLockedAreRecordedAfterARecordWhoseConnectionHasBroken(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]int{"nothing else": 1, "others": 4} {
		for _, seconds := range []float64{0.06, 0.6} {
			t.Run(fmt.Sprint(name, " ", seconds), func(t *testing.T) {
				t.Parallel()
				w := setupAt(t, pgtest.Direct(t))
				var calls atomic.Int64
				w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
					calls.Add(1)
					return nil, nil
				}))
				w.enqueue("job", slot(1), rows)
				somebody := w.db.MustBegin()
				somebody.MustExec(`select from prescient.future_job where entity_key = '0' for update`)
				network := w.network()
				db := network.open()
				w.breaksInCommit(seconds, func() {
					network.cutBut(link{})
					_ = somebody.Rollback()
				})
				time.AfterFunc(time.Second, func() { _ = somebody.Rollback() })
				result := w.run(slot(1), func(c *slots.Config) { c.DB = db })
				if n := calls.Load(); n != int64(rows) || result.Finished != n || result.Checked != n || result.Yielded != 0 || result.Lost != 0 {
					t.Errorf("%d calls for %d rows, %+v", n, rows, result)
				}
				if outcomes := w.outcomes(); outcomes[jobs.OutcomeDone] != rows {
					t.Errorf("%v", outcomes)
				}
			})
		}
	}
}

// A runner that finds locked rows gone learns from the fence that its claim is lost.
func TestRowsThatAreGoneWithTheLeaseAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	somebody := w.db.MustBegin()
	w.registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		somebody.MustExec(`select from prescient.future_job for update`)
		time.AfterFunc(time.Second, func() { // when the outcome waits for the lock
			somebody.MustExec(`delete from prescient.future_job`)
			somebody.MustExec(`delete from prescient.slot_claim where jobs <> '{}'`)
			_ = somebody.Commit()
		})
		return nil, nil
	}))
	w.enqueue("job", slot(1), 1)
	var told counter
	result := w.run(slot(1), func(c *slots.Config) { c.Observer = &told })
	if result.Lost != 1 || result.Yielded != 0 || result.Checked != 0 || told.rows.Load() != 0 {
		t.Errorf("%+v, and the observer was told of %d", result, told.rows.Load())
	}
}

// breaksInCommit lets the first commit of a record take long, and calls cut meanwhile.
func (w *world) breaksInCommit(seconds float64, cut func()) {
	w.t.Helper()
	pgtest.NotOnCitus(w.t, "it has no triggers on the tables of a distributed schema")
	w.db.MustExec(fmt.Sprintf(`
		create sequence commit_of_a_record;
		create function take_long() returns trigger language plpgsql as $$
		begin
			if nextval('public.commit_of_a_record') = 1 then
				perform pg_sleep(%v);
			end if;
			return null;
		end $$;
		create constraint trigger take_long after insert on prescient.slot_progress deferrable initially deferred for each row execute function take_long()`,
		seconds))
	go func() {
		const query = `select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep')`
		for sleeps := false; w.t.Context().Err() == nil && !sleeps; time.Sleep(3 * time.Millisecond) {
			if w.db.Get(&sleeps, query) == nil && sleeps {
				cut()
			}
		}
	}()
}
