package slots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

// child is a check that another asks for.
func child(job, key, group string, at time.Time) jobs.Request {
	c := jobs.Request{JobExec: job, EntityName: "order", EntityKey: key, GroupKey: group}
	c.CheckAt = at
	return c
}

// pending counts the rows of a job that wait.
func (w *world) pending(job string) int {
	w.t.Helper()
	list, err := seq.Collect(admin.New(w.client).List(w.t.Context(), w.db, admin.Filter{JobExec: job, Limit: 1 << 20}))
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

func TestWhatAnOutcomeAsksForIsEnqueuedWithIt(t *testing.T) {
	t.Parallel()
	asks := func(batch []jobs.FutureJob) []jobs.Result {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			results[i].Enqueue = []jobs.Request{child("child", job.EntityKey, "", slot(2)), child("child", job.EntityKey+"'", "", slot(0))}
			switch {
			case strings.HasSuffix(job.EntityKey, "1"):
				results[i].Next = new(slot(3))
			case strings.HasSuffix(job.EntityKey, "2"):
				results[i].Err = errors.New("not this time")
			case strings.HasSuffix(job.EntityKey, "3"):
				results[i].Enqueue[1].EntityKey = strings.Repeat("x", 501) // fails its own row alone
			}
		}
		return results
	}
	for name, register := range map[string]func(r *jobs.Registry){
		"one row": func(r *jobs.Registry) {
			r.Register("parent", jobs.Row(func(_ context.Context, job jobs.FutureJob) (jobs.Result, error) {
				result := asks([]jobs.FutureJob{job})[0]
				return result, result.Err
			}))
		},
		"a batch": func(r *jobs.Registry) {
			r.Register("parent", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) { return asks(batch), nil }))
		},
		"a batch with a transaction": func(r *jobs.Registry) {
			r.Register("parent", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return asks(batch), nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry)
			w.registry.Register("child", jobs.Row(done))
			w.enqueue("parent", slot(1), 100)
			if result := w.run(slot(1)); result.Finished != 70 || result.Rescheduled != 10 || result.Failed != 20 {
				t.Errorf("%+v", result)
			}
			if n := w.pending("child"); n != 160 {
				t.Errorf("%d children wait, want two of each of 80 rows", n)
			}
			if result := w.run(slot(2)); result.Finished != 160 { // those that were due in the past, too; and again 20 parents fail
				t.Errorf("%+v", result)
			}
			events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{JobExec: "parent", EntityName: "order", EntityKey: "3"})
			if err != nil {
				t.Fatal(err)
			}
			if text := events[1].Error; !strings.Contains(text, "check 2 that it enqueues: entity_key: must be at most 500 bytes") {
				t.Errorf("the parent failed with %q", text)
			}
		})
	}
}

func TestWhatIsAskedForBeyondAllSlotsIsAnErrorOfItsRowAlone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	last := child("child", "x", "", grid.Max())
	last.Within = 24 * time.Hour
	w.registry.Register("parent", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		results[0].Enqueue = []jobs.Request{last}
		return results, nil
	}))
	w.enqueue("parent", slot(1), 40)
	if result := w.run(slot(1)); result.Finished != 39 || result.Failed != 1 || w.pending("child") != 0 {
		t.Errorf("%+v, %d children", result, w.pending("child"))
	}
}

func TestWhatIsCancelledWhileItIsCheckedAsksForNothing(t *testing.T) {
	t.Parallel()
	one := func(w *world) func(context.Context, jobs.FutureJob) (jobs.Result, error) {
		return func(ctx context.Context, job jobs.FutureJob) (result jobs.Result, err error) {
			result.Enqueue = []jobs.Request{child("child", job.EntityKey, "", slot(2))}
			if n, _ := strconv.Atoi(job.EntityKey); n%2 == 0 {
				if found, err := w.client.Cancel(ctx, jobs.OwnTx(w.db), job.Key()); err != nil || !found {
					t.Errorf("cancelled %t: %v", found, err)
				}
			}
			return result, nil
		}
	}
	for name, register := range map[string]func(w *world){
		"one row": func(w *world) { w.registry.Register("parent", jobs.Row(one(w))) },
		"a batch": func(w *world) {
			w.registry.Register("parent", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				results := make([]jobs.Result, len(batch))
				for i, job := range batch {
					results[i], _ = one(w)(ctx, job)
				}
				return results, nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w)
			w.enqueue("parent", slot(1), 40)
			if result := w.run(slot(1)); result.Finished != 20 || result.Yielded != 20 || result.State != slots.StateDone {
				t.Errorf("%+v", result)
			}
			if n := w.pending("child"); n != 20 {
				t.Errorf("%d children wait, want those of the 20 parents that were not cancelled", n)
			}
		})
	}
}

// The check of a row with an even key moves or ends its own row through its transaction.
func TestACheckThatMovesOrEndsItsOwnRowAsksForNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(ctx context.Context, w *world, tx jobs.Tx, key jobs.Key) error{
		"moves": func(ctx context.Context, w *world, tx jobs.Tx, key jobs.Key) error {
			_, _, err := w.client.Reschedule(ctx, tx, key, slot(9))
			return err
		},
		"ends": func(ctx context.Context, w *world, tx jobs.Tx, key jobs.Key) error {
			_, err := w.client.Cancel(ctx, tx, key)
			return err
		},
	} {
		one := func(w *world) func(context.Context, *sqlx.Tx, jobs.FutureJob) (jobs.Result, error) {
			return func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (result jobs.Result, err error) {
				result.Enqueue = []jobs.Request{child("child", job.EntityKey, "", slot(2))}
				if n, _ := strconv.Atoi(job.EntityKey); n%2 == 0 {
					err = change(ctx, w, tx, job.Key())
				}
				return result, err
			}
		}
		for shape, register := range map[string]func(w *world){
			"InTx": func(w *world) { w.registry.Register("parent", jobs.InTx(one(w))) },
			"Each": func(w *world) { w.registry.Register("parent", jobs.Each(one(w))) },
		} {
			t.Run(name+", "+shape, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				register(w)
				w.enqueue("parent", slot(1), 40)
				if result := w.run(slot(1)); result.Finished != 20 || result.Yielded != 20 || result.State != slots.StateDone {
					t.Errorf("%+v", result)
				}
				if n := w.pending("child"); n != 20 {
					t.Errorf("%d children wait, want those of the 20 parents that stayed", n)
				}
			})
		}
	}
}

func TestACheckThatGivesUpHasFailedAtOnce(t *testing.T) {
	t.Parallel()
	noAddress := errors.New("the customer has no address")
	one := func(context.Context, jobs.FutureJob) (*time.Time, error) {
		return nil, fmt.Errorf("send the mail: %w", jobs.GiveUp(noAddress))
	}
	inTx := func(ctx context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) { return one(ctx, job) }
	for shape, register := range map[string]func(r *jobs.Registry){
		"Row":  func(r *jobs.Registry) { r.Register("job", jobs.Row(one)) },
		"InTx": func(r *jobs.Registry) { r.Register("job", jobs.InTx(inTx)) },
		"Each": func(r *jobs.Registry) { r.Register("job", jobs.Each(inTx)) },
		"Batch": func(r *jobs.Registry) {
			r.Register("job", jobs.Batch(func(ctx context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
				_, err := one(ctx, batch[0])
				return slices.Repeat([]jobs.Result{{Err: err}}, len(batch)), nil
			}))
		},
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry)
			w.enqueue("job", slot(1), 3)
			if result := w.run(slot(1)); result.Failed != 3 || w.pending("job") != 0 {
				t.Errorf("%+v, %d rows wait", result, w.pending("job"))
			}
			ended, err := seq.Collect(admin.New(w.client).History(t.Context(), w.db, admin.HistoryFilter{}))
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range ended {
				if row.Outcome != jobs.OutcomeFailed || row.LastError != "send the mail: the customer has no address" || row.ErrorCount != 1 {
					t.Errorf("%+v", row)
				}
			}
			if n, _, err := admin.New(w.client).Retry(t.Context(), w.db, admin.RetryFilter{JobExec: "job"}, slot(2)); n != 3 || err != nil {
				t.Errorf("%d put back, %v", n, err)
			}
		})
	}
	if !errors.Is(jobs.GiveUp(noAddress), noAddress) || !errors.Is(jobs.GiveUp(nil), jobs.ErrGiveUp) {
		t.Error("it does not wrap the error")
	}
}

func TestAnErrorInTheResultOfACheckUndoesItsWrites(t *testing.T) {
	t.Parallel()
	check := func(ctx context.Context, tx *sqlx.Tx, job *jobs.Job[float64]) (result jobs.Result, err error) {
		_, err = tx.ExecContext(ctx, "insert into effect values ($1)", job.JobExec+" "+job.EntityKey)
		switch job.EntityKey {
		case "1":
			result.Err = errors.New("no")
		case "2":
			result.Enqueue = []jobs.Request{{}}
		case "3":
			result.Payload = json.RawMessage("{")
		case "4":
			result.Next, job.Data = new(slot(2)), math.NaN()
		}
		return result, err
	}
	for name, around := range map[string]jobs.Middleware{
		"": func(ctx context.Context, _ jobs.Call, next func(context.Context) ([]jobs.Result, error)) ([]jobs.Result, error) {
			return next(ctx)
		},
		"with a middleware that hides the error": func(
			ctx context.Context, call jobs.Call, next func(context.Context) ([]jobs.Result, error),
		) ([]jobs.Result, error) {
			results, err := next(ctx)
			if err != nil {
				results = make([]jobs.Result, len(call.Rows))
				results[0].Err = err
			}
			return results, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.db.MustExec("create table effect (key text)")
			w.registry.Use(around)
			jobs.Kind[float64]{Name: "alone"}.Register(w.registry, jobs.InTx(check))
			jobs.Kind[float64]{Name: "each"}.Register(w.registry, jobs.Each(check))
			w.enqueue("alone", slot(1), 5)
			w.enqueue("each", slot(1), 5)
			result := w.run(slot(1))
			var effects []string
			if err := w.db.Select(&effects, "select key from effect order by key"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"alone 0", "each 0"}, effects); diff != "" || result.Finished != 2 || result.Failed != 8 {
				t.Errorf("%+v, effects (-want +got) %s", result, diff)
			}
		})
	}
}

// A transaction that has asked for the same check, and does not commit, keeps nothing but the outcome that asks for it from being recorded.
func TestACheckThatSomebodyElseAsksForHoldsUpNoOtherOutcome(t *testing.T) {
	t.Parallel()
	ask := func(batch []jobs.FutureJob) []jobs.Result {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			results[i].Enqueue = []jobs.Request{child("child", job.EntityKey, "", slot(2))}
		}
		return results
	}
	for name, register := range map[string]func(r *jobs.Registry){
		"batch": func(r *jobs.Registry) {
			r.Register("parent", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) { return ask(batch), nil }))
		},
		"batch in a transaction": func(r *jobs.Registry) {
			r.Register("parent", jobs.BatchInTx(func(_ context.Context, _ *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return ask(batch), nil
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			register(w.registry)
			tx := w.db.MustBegin()
			defer func() { _ = tx.Rollback() }()
			if _, err := w.client.Enqueue(t.Context(), tx, child("child", "17", "", slot(2))); err != nil {
				t.Fatal(err)
			}
			w.enqueue("parent", slot(1), 40)
			w.clock.Set(slot(1))
			running := w.background(slot(1))
			w.eventually("all others are recorded", func() bool { return w.count(`select count(*) from prescient.future_job_history`) == 39 })
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if result := <-running; result.Finished != 40 || w.pending("child") != 40 {
				t.Errorf("%+v, %d children", result, w.pending("child"))
			}
		})
	}
}

// However many of them are asked for: each part of what is to be recorded has one.
func TestChecksThatSomebodyElseAsksForHoldUpNoOtherOutcome(t *testing.T) {
	if testing.Short() {
		t.Skip("make test has one such check: TestACheckThatSomebodyElseAsksForHoldsUpNoOtherOutcome")
	}
	t.Parallel()
	const rows, held = 500, 50
	w := setup(t)
	w.registry.Register("parent", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			results[i].Enqueue = []jobs.Request{child("child", job.EntityKey, "", slot(2))}
		}
		return results, nil
	}))
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	for i := range held {
		if _, err := w.client.Enqueue(t.Context(), tx, child("child", fmt.Sprint(i*rows/held), "", slot(2))); err != nil {
			t.Fatal(err)
		}
	}
	w.enqueue("parent", slot(1), rows)
	w.clock.Set(slot(1))
	running := w.background(slot(1), func(c *slots.Config) { c.Page = rows })
	w.eventually("most others are recorded", func() bool { return w.count(`select count(*) from prescient.future_job_history`) > (rows-held)/2 })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if result := <-running; result.Finished != rows || w.pending("child") != rows {
		t.Errorf("%+v, %d children", result, w.pending("child"))
	}
}

// The recipe of docs/flow.md. Both parts have done their work before either looks whether it is the last.
func TestOfTwoLastPartsOfAGroupThatEndAtOnceOneAsksForWhatFollows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var working sync.WaitGroup
	working.Add(2)
	first := map[string]*sync.Once{"customers": {}, "orders": {}} // a check may be repeated
	w.registry.Register("import.load", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, part jobs.FutureJob) (*time.Time, error) {
		first[part.ItemKey].Do(working.Done)
		working.Wait()
		if _, err := tx.ExecContext(ctx, `select prescient.lock_group($1)`, part.GroupKey); err != nil {
			return nil, err
		}
		related, err := w.client.Related(ctx, tx, part)
		if err != nil {
			return nil, err
		}
		for _, other := range related {
			if other.JobExec == part.JobExec && other.Key() != part.Key() {
				return nil, nil
			}
		}
		_, err = w.client.Enqueue(ctx, tx, child("import.report", part.EntityKey, "", slot(2)))
		if err == nil {
			_, err = w.client.Enqueue(ctx, tx, child("asked", part.ItemKey, "", slot(2))) // one for each that asks
		}
		return nil, err
	}), jobs.Retry(0))
	for _, key := range []string{"customers", "orders"} {
		part := child("import.load", "seven", "import seven", slot(1))
		part.ItemKey = key
		if _, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), part); err != nil {
			t.Fatal(err)
		}
	}
	if result := w.run(slot(1)); result.Finished != 2 {
		t.Errorf("%+v", result)
	}
	if reports, asked := w.pending("import.report"), w.pending("asked"); reports != 1 || asked != 1 {
		t.Errorf("%d reports wait, and %d parts have asked for one; want 1 and 1", reports, asked)
	}
}

// Three e-mails become one: the check of a group considers the rows to come, of any job.
func TestTheCheckOfAGroupEndsAndMovesWhatElseWaitsForIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := t.Context()
	var mu sync.Mutex
	var mails []string
	w.registry.Register("mail", jobs.Group("mails", func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		mail := ""
		related, err := w.client.Related(ctx, tx, batch[0])
		if err != nil {
			return nil, err
		}
		for _, job := range related {
			switch {
			case job.JobExec == "mail" && job.NextCheckAt.Sub(batch[0].Slot) <= 24*time.Hour:
				mail += job.EntityKey + " "
				if job.NextCheckAt.After(batch[0].Slot) {
					if n, err := w.client.End(ctx, tx, jobs.OutcomeDone, job); err != nil || n != 1 {
						return nil, fmt.Errorf("ended %d: %w", n, err)
					}
				}
			case job.JobExec == "reminder":
				if _, found, err := w.client.Reschedule(ctx, tx, job.Key(), slot(200)); err != nil || !found {
					return nil, fmt.Errorf("moved %t: %w", found, err)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		mails = append(mails, mail)
		return make([]jobs.Result, len(batch)), nil
	}))
	list := []jobs.Request{
		child("mail", "1", "alice", slot(1)), child("mail", "2", "alice", slot(1)), child("mail", "3", "alice", slot(40)),
		child("mail", "4", "alice", slot(150)), child("reminder", "5", "alice", slot(20)), child("mail", "6", "bob", slot(1)),
		child("reminder", "7", "bob'", slot(20)),
	}
	list[2].Anonymous = true
	if _, err := w.client.EnqueueMany(ctx, jobs.OwnTx(w.db), list); err != nil {
		t.Fatal(err)
	}
	if result := w.run(slot(1)); result.Finished != 3 {
		t.Errorf("%+v", result)
	}
	if len(mails) != 2 || mails[0]+mails[1] != "1 2 3 6 " && mails[0]+mails[1] != "6 1 2 3 " {
		t.Errorf("mails %q", mails)
	}
	left, err := seq.Collect(admin.New(w.client).List(ctx, w.db, admin.Filter{}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, job := range left {
		got = append(got, fmt.Sprint(job.EntityKey, " ", job.NextCheckAt.Equal(slot(200))))
	}
	if diff := cmp.Diff([]string{"7 false", "4 false", "5 true"}, got); diff != "" {
		t.Error(diff)
	}
	if n, err := w.client.End(ctx, jobs.OwnTx(w.db), jobs.OutcomeDone, jobs.FutureJob{JobExec: "mail"}); n != 0 || err != nil {
		t.Errorf("ended %d rows that are not stored: %v", n, err)
	}
	if _, err := w.client.End(ctx, jobs.OwnTx(w.db), jobs.OutcomeFailed, left...); err == nil {
		t.Error("a row was ended as failed")
	}
}
