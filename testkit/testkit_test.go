package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/testkit"
)

// There is no TestMain: tests need none.

// remind looks again 24 h after the first look.
func remind(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
	if job.CheckCount > 0 {
		return nil, nil
	}
	next := job.Slot.Add(24 * time.Hour)
	return &next, nil
}

func fail(context.Context, jobs.FutureJob) (*time.Time, error) {
	return nil, errors.New("the shop is closed")
}

func again(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
	next := job.Slot.Add(time.Second)
	return &next, nil
}

func registry() *jobs.Registry {
	r := jobs.NewRegistry()
	r.Register("remind", jobs.Row(remind))
	r.Register("fail", jobs.Row(fail), jobs.Retry(1))
	r.Register("again", jobs.Row(again), jobs.MaxChecks(1<<30), jobs.Deadline(time.Hour))
	return r
}

func order(job string) jobs.Request {
	return jobs.Request{JobExec: job, EntityName: "order", EntityKey: "42"}
}

const day = 24 * time.Hour

func TestTimePassesWithARunAtEachSlot(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	row := order("remind")
	kit.Enqueue(row, testkit.Start().Add(2*day))
	kit.RequireWaiting(row.Key(), testkit.Start().Add(2*day))
	if results := kit.RunUntil(testkit.Start().Add(2*day - time.Minute)); len(results) != 0 || !kit.Now().Equal(testkit.Start().Add(2*day-time.Minute)) {
		t.Errorf("before its time: %v, at %s", results, kit.Now())
	}
	if results := kit.RunFor(time.Minute); len(results) != 1 || results[0].Rescheduled != 1 {
		t.Errorf("at its time: %v", results)
	}
	if row := kit.RequireWaiting(row.Key(), testkit.Start().Add(3*day)); row.CheckCount != 1 {
		t.Errorf("it was checked %d times", row.CheckCount)
	}
	if results := kit.RunAll(); len(results) != 1 || !kit.Now().Equal(testkit.Start().Add(3*day)) {
		t.Errorf("at last: %v, at %s", results, kit.Now())
	}
	if ended := kit.RequireEnded(row.Key(), jobs.OutcomeDone); !ended.Slot.Equal(testkit.Start().Add(3*day)) || ended.Lateness != 0 {
		t.Errorf("it ended in %s, %s late", ended.Slot, ended.Lateness)
	}
	if status, err := kit.Ledger.Status(t.Context(), time.Time{}); err != nil || !status.OK() {
		t.Errorf("slots are in trouble: %v, %v", status.Trouble, err)
	}
	if waiting, ended := kit.Waiting(), kit.Ended(); len(waiting) != 0 || len(ended) != 1 {
		t.Errorf("%v wait, %v have ended", waiting, ended)
	}
}

// The row of a periodic function, like that of a schedule, always has a successor.
func TestRunningAllEndsWhenOnlyPeriodicFunctionsWait(t *testing.T) {
	t.Parallel()
	r := registry()
	r.Periodic("report.daily", "0 9 * * *", jobs.Row(fail), jobs.Retry(0))
	kit := testkit.New(t, testkit.Config{Registry: r})
	row := order("remind")
	kit.Enqueue(row, testkit.Start().Add(2*day))
	kit.RunAll()
	kit.RequireEnded(row.Key(), jobs.OutcomeDone)
	if !kit.Now().Equal(testkit.Start().Add(3 * day)) {
		t.Errorf("it is %s", kit.Now())
	}
	kit.RequireWaiting(jobs.PeriodicKey("report.daily"), testkit.Start().Add(4*day))
	if results := kit.RunAll(); len(results) != 0 {
		t.Errorf("once more: %v", results)
	}
}

// A kit has one runner for all runs. In production each run has its own, which makes the row.
func TestTheRowOfAPeriodicFunctionThatWasCancelledIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	var called []time.Time
	r.Periodic("report.daily", "0 9 * * *", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		called = append(called, job.Instant)
		return nil, nil
	}))
	kit := testkit.New(t, testkit.Config{Registry: r})
	found, err := kit.Client.Cancel(t.Context(), jobs.OwnTx(kit.DB), jobs.PeriodicKey("report.daily"))
	if !found || err != nil {
		t.Fatal(found, err)
	}
	kit.RunFor(2 * day)
	if diff := cmp.Diff([]time.Time{testkit.Start().Add(day), testkit.Start().Add(2 * day)}, called); diff != "" {
		t.Error(diff)
	}
}

// The clock of a kit stands still, so a run that waits until the next slot would wait for ever.
func TestARowThatStaysLockedEndsTheTest(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	row := order("remind")
	kit.Enqueue(row, kit.Now().Add(time.Minute))
	tx := kit.DB.MustBegin()
	defer func() { _ = tx.Rollback() }()
	if found, err := kit.Client.Cancel(t.Context(), tx, row.Key()); !found || err != nil {
		t.Fatal(found, err)
	}
	got := fatal(t, kit, func(k *testkit.Kit) { k.RunFor(15 * time.Minute) })
	if !strings.Contains(got, slots.ErrLocked.Error()) {
		t.Errorf("it fails with %q, want %q", got, slots.ErrLocked)
	}
}

func TestWhatFallsDueWhileOnlyTheClockMovesIsMissed(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry(), Start: time.Date(2026, time.March, 1, 13, 5, 0, 0, time.UTC)})
	row := order("remind")
	kit.Enqueue(row, kit.Now())
	kit.Clock.Advance(3 * time.Hour)
	kit.RequireWaiting(row.Key(), kit.Now().Add(-3*time.Hour))
	results := kit.RunDue()
	if len(results) != 1 || results[0].Rescheduled != 1 {
		t.Errorf("%v", results)
	}
	kit.RunAll()
	kit.RequireEnded(row.Key(), jobs.OutcomeDone)
}

func TestALateRunIsLate(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	row := order("again")
	slot := kit.Enqueue(row, testkit.Start().Add(time.Minute)).Slot
	kit.Clock.Set(slot.Add(2 * time.Hour))
	kit.Run(slot)
	if ended := kit.RequireEnded(row.Key(), jobs.OutcomeDeadline); ended.CheckCount != 0 {
		t.Errorf("%+v", ended)
	}
}

func TestErrorsAreTriedAgainUntilTheRowHasFailed(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry(), Width: time.Minute})
	row := order("fail")
	kit.Enqueue(row, testkit.Start().Add(time.Minute))
	if results := kit.RunAll(); len(results) != 2 || results[0].Failures[0].Error != "the shop is closed" {
		t.Errorf("%v", results)
	}
	if ended := kit.RequireEnded(row.Key(), jobs.OutcomeFailed); !ended.Slot.Equal(testkit.Start().Add(2*time.Minute)) || ended.LastError != "the shop is closed" {
		t.Errorf("%+v", ended)
	}
}

func TestAKitTakesTheDatabaseAndTheSchemaOfTheTest(t *testing.T) {
	t.Parallel()
	other := testkit.New(t, testkit.Config{})
	kit := testkit.New(t, testkit.Config{Registry: registry(), DB: other.DB, Schema: "checks"})
	row := order("remind")
	kit.Enqueue(row, kit.Now())
	kit.RunAll()
	kit.RequireEnded(row.Key(), jobs.OutcomeDone)
	other.RequireNotWaiting(row.Key())
	if len(other.Ended()) != 0 || other.URL == "" || kit.URL != "" {
		t.Error("the two are not apart")
	}
}

func TestSQLOfTheApplicationIsPartOfTheStory(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec("select prescient.enqueue('remind', 'order', '42', check_at => $1)", testkit.Start().Add(time.Hour))
	kit.RequireWaiting(order("remind").Key(), testkit.Start().Add(time.Hour))
	kit.RunAll()
	kit.RequireEnded(order("remind").Key(), jobs.OutcomeDone)
}

func TestFailuresOfAssertionsTellTheStory(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	row, failing, unknown := order("remind"), order("fail"), order("nobody knows")
	kit.Enqueue(row, testkit.Start().Add(day))
	kit.Enqueue(failing, testkit.Start().Add(time.Minute))
	kit.Enqueue(unknown, testkit.Start().Add(time.Minute))
	kit.RunFor(time.Hour)
	endless := testkit.New(t, testkit.Config{Registry: registry()})
	endless.Enqueue(order("again"), testkit.Start().Add(time.Minute))
	misspelt := testkit.New(t, testkit.Config{Registry: registry()})
	misspelt.Enqueue(order("remimd"), testkit.Start().Add(time.Hour))
	for name, test := range map[string]struct {
		kit  *testkit.Kit
		do   func(kit *testkit.Kit)
		want string
	}{
		"another slot": {
			kit, func(k *testkit.Kit) { k.RequireWaiting(row.Key(), testkit.Start()) },
			"remind on order 42 waits for 2100-01-05T09:00:00Z, not for 2100-01-04T09:00:00Z\nit is 2100-01-04T10:00:00Z; its timeline:\n" +
				"  slot 2100-01-05T09:00:00Z  enqueued\n  slot 2100-01-05T09:00:00Z  waiting",
		},
		"it has ended": {
			kit, func(k *testkit.Kit) { k.RequireWaiting(failing.Key(), time.Time{}) },
			"fail on order 42 does not wait\nit is 2100-01-04T10:00:00Z; its timeline:\n  slot 2100-01-04T09:15:00Z  enqueued\n" +
				"  slot 2100-01-04T09:15:00Z  retry: the shop is closed\n  slot 2100-01-04T09:30:00Z  failed: the shop is closed",
		},
		"otherwise": {kit, func(k *testkit.Kit) { k.RequireEnded(failing.Key(), jobs.OutcomeDone) }, "fail on order 42 has not ended as done\n"},
		"not yet":   {kit, func(k *testkit.Kit) { k.RequireEnded(row.Key(), jobs.OutcomeDone) }, "remind on order 42 waits for 2100-01-05T09:00:00Z"},
		"still":     {kit, func(k *testkit.Kit) { k.RequireNotWaiting(row.Key()) }, "remind on order 42 waits for 2100-01-05T09:00:00Z"},
		"misspelt": {
			kit, func(k *testkit.Kit) {
				k.RequireWaiting(jobs.Key{JobExec: "remimd", EntityName: "order", EntityKey: "42"}, time.Time{})
			},
			"remimd on order 42 does not wait\nit is 2100-01-04T10:00:00Z; it was never enqueued; what waits:\n" +
				"  slot 2100-01-04T09:15:00Z  nobody knows on order 42\n  slot 2100-01-05T09:00:00Z  remind on order 42",
		},
		"without end": {endless, func(k *testkit.Kit) { k.RunAll() }, "1000 slots were run, and there is still something to do:\nwhat waits:\n  slot 2100-01-"},
		"an unknown job": {
			misspelt, func(k *testkit.Kit) { k.RunAll() },
			"rows of [\"remimd\"] wait in slot 2100-01-04T10:00:00Z, and no such job is registered:\nwhat waits:\n  slot 2100-01-04T10:00:00Z  remimd on order 42",
		},
		"a bad instant": {testkit.New(t, testkit.Config{}), func(k *testkit.Kit) { k.Run(testkit.Start().Add(61 * time.Minute)) }, "is not a slot"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && test.kit == endless {
				t.Skip("it runs a thousand slots")
			}
			t.Parallel()
			if got := fatal(t, test.kit, test.do); !strings.Contains(got, test.want) {
				t.Errorf("it fails with\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestACheckIsCalledAloneWithoutADatabase(t *testing.T) {
	t.Parallel()
	slot := time.Date(2026, time.March, 1, 13, 15, 0, 0, time.UTC)
	r := registry()
	for name, test := range map[string]struct {
		row  jobs.FutureJob
		want testkit.Checked
	}{
		"it goes on":       {jobs.FutureJob{JobExec: "remind", Slot: slot}, testkit.Checked{Slot: slot.Add(day)}},
		"from the default": {jobs.FutureJob{JobExec: "remind"}, testkit.Checked{Slot: testkit.Start().Add(day)}},
		"it ends":          {jobs.FutureJob{JobExec: "remind", Slot: slot, CheckCount: 1}, testkit.Checked{Outcome: jobs.OutcomeDone}},
		"an error":         {jobs.FutureJob{JobExec: "fail", Slot: slot}, testkit.Checked{Slot: slot.Add(15 * time.Minute)}},
		"the last error":   {jobs.FutureJob{JobExec: "fail", Slot: slot, ErrorCount: 1}, testkit.Checked{Outcome: jobs.OutcomeFailed}},
		"rounded up":       {jobs.FutureJob{JobExec: "again", Slot: slot}, testkit.Checked{Slot: slot.Add(15 * time.Minute)}},
		"too late":         {jobs.FutureJob{JobExec: "again", Slot: slot, Lateness: 2 * time.Hour}, testkit.Checked{Outcome: jobs.OutcomeDeadline}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := testkit.Check(t, r, test.row)
			if got.Outcome != test.want.Outcome || !got.Slot.Equal(test.want.Slot) || (got.Err != nil) != (test.row.JobExec == "fail") {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestABatchIsCalledWithTheRowsThatAreToBeChecked(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("batch", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, row := range batch {
			if row.EntityKey == "bad" {
				results[i].Err = errors.New("bad")
			}
		}
		_, err := tx.ExecContext(ctx, "create table called as select $1::int as rows", len(batch))
		return results, err
	}), jobs.Deadline(time.Hour))
	rows := []jobs.FutureJob{{JobExec: "batch"}, {JobExec: "batch", Lateness: day}, {JobExec: "batch", EntityKey: "bad"}}
	kit := testkit.New(t, testkit.Config{})
	tx := kit.DB.MustBegin()
	defer func() { _ = tx.Rollback() }()
	got := testkit.CheckBatch(t, r, tx, rows)
	var called int
	if err := tx.GetContext(t.Context(), &called, "select rows from called"); err != nil || called != 2 {
		t.Errorf("it was called with %d rows, %v", called, err)
	}
	if got[0].Outcome != jobs.OutcomeDone || got[1].Outcome != jobs.OutcomeDeadline || got[2].Err == nil || got[2].Slot.IsZero() {
		t.Errorf("%+v", got)
	}
}

// Otherwise a test passes, and in production the row is tried until it has failed.
func TestACheckWhoseTransactionCannotBeRecordedFails(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{})
	for name, test := range map[string]struct {
		do   func(ctx context.Context, tx *sqlx.Tx) error
		want string // empty: it does not fail
	}{
		"after an error of a statement": {
			func(ctx context.Context, tx *sqlx.Tx) error {
				_, _ = tx.ExecContext(ctx, "select 1 / 0")
				return nil
			},
			"the check went on after an error of its transaction",
		},
		"after an error of a savepoint": {
			func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, "savepoint s")
				_, _ = tx.ExecContext(ctx, "select 1 / 0")
				_, back := tx.ExecContext(ctx, "rollback to savepoint s")
				return errors.Join(err, back)
			},
			"",
		},
		"committed": {
			func(_ context.Context, tx *sqlx.Tx) error { return tx.Commit() },
			"the check ended its transaction itself: it must return instead",
		},
		"committed by a statement": {
			func(ctx context.Context, tx *sqlx.Tx) error {
				_, err := tx.ExecContext(ctx, "commit")
				return err
			},
			"the check ended its transaction itself: it must return instead",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := jobs.NewRegistry()
			r.Register("row", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, _ jobs.FutureJob) (*time.Time, error) {
				return nil, test.do(ctx, tx)
			}))
			r.Register("batch", jobs.BatchInTx(func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
				return make([]jobs.Result, len(batch)), test.do(ctx, tx)
			}))
			for _, rows := range [][]jobs.FutureJob{{{JobExec: "row"}}, {{JobExec: "batch"}, {JobExec: "batch", EntityKey: "2"}}} {
				tx := kit.DB.MustBegin()
				for _, got := range testkit.CheckBatch(t, r, tx, rows) {
					done := got.Err == nil && got.Outcome == jobs.OutcomeDone
					if done != (test.want == "") || !done && (!strings.Contains(fmt.Sprint(got.Err), test.want) || got.Slot.IsZero()) {
						t.Errorf("%s: %+v", rows[0].JobExec, got)
					}
				}
				_ = tx.Rollback()
			}
		})
	}
}

func TestACheckThatCannotBeCalledAloneIsAMistakeOfTheTest(t *testing.T) {
	t.Parallel()
	r := registry()
	r.Register("writes", jobs.InTx(func(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	for want, rows := range map[string][]jobs.FutureJob{
		`job remimd is not registered; registered are ["again" "fail" "remind" "writes"]`: {{JobExec: "remimd"}},
		"job writes writes through a transaction: call CheckTx":                           {{JobExec: "writes"}},
		"job remind takes one row at a time":                                              {{JobExec: "remind"}, {JobExec: "remind"}},
	} {
		rec := &recorder{TB: t}
		rec.run(func() { testkit.CheckBatch(rec, r, nil, rows) })
		if !strings.Contains(rec.text, want) {
			t.Errorf("it fails with %q, want %q", rec.text, want)
		}
	}
}

func TestACheckThatReturnsAfterItsTimeoutAsIfNothingWereWrongIsFoundOut(t *testing.T) {
	t.Parallel()
	r := registry()
	r.Register("deaf", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		<-ctx.Done()
		return nil, nil
	}), jobs.Timeout(time.Millisecond))
	r.Register("cut short", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}), jobs.Timeout(time.Millisecond))
	r.Register("cut short with a result", jobs.Row(func(ctx context.Context, _ jobs.FutureJob) (jobs.Result, error) {
		<-ctx.Done()
		return jobs.Result{Err: ctx.Err()}, nil
	}), jobs.Timeout(time.Millisecond))
	rec := &recorder{TB: t}
	rec.run(func() { testkit.Check(rec, r, jobs.FutureJob{JobExec: "deaf"}) })
	if want := "the check of job deaf went on after its timeout of 1ms and returned no error"; !strings.Contains(rec.text, want) {
		t.Errorf("it fails with %q, want %q", rec.text, want)
	}
	for _, job := range []string{"cut short", "cut short with a result"} {
		if checked := testkit.Check(t, r, jobs.FutureJob{JobExec: job}); !errors.Is(checked.Err, context.DeadlineExceeded) {
			t.Errorf("%s: %+v", job, checked)
		}
	}
}

// recorder is a test that is to fail.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// run keeps what fn failed with.
func (r *recorder) run(fn func()) {
	defer func() { r.text, _ = recover().(string) }()
	fn()
}

// fatal returns what something ends a test with that has a database of its own.
func fatal(t *testing.T, kit *testkit.Kit, do func(*testkit.Kit)) string {
	t.Helper()
	rec := &recorder{TB: t}
	rec.run(func() { do(kit.For(rec)) })
	return rec.text
}

func TestTheCheckAtOfARequestCounts(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{})
	at := testkit.Start().Add(time.Hour)
	row := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "1", CheckAt: at}
	kit.Enqueue(row, time.Time{})
	kit.RequireWaiting(row.Key(), at)
}
