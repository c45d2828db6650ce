package slots_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

const day = 24 * time.Hour

// instants has the instants that a periodic function was called for.
type instants struct {
	mu     sync.Mutex
	called []string
	err    error
}

func (c *instants) check(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called = append(c.called, job.Instant.Format("01-02 15:04"))
	return nil, c.err
}

// want compares the instants since the last call of want.
func (c *instants) want(t *testing.T, list ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(list, c.called); diff != "" {
		t.Error(diff)
	}
	c.called = nil
}

// periodic returns a kit with one periodic function.
func periodic(t *testing.T, start time.Time, crontab string, opts ...jobs.Option) (*testkit.Kit, *instants) {
	t.Helper()
	var c instants
	registry := jobs.NewRegistry()
	registry.Periodic("report", crontab, jobs.Row(c.check), opts...)
	return testkit.New(t, testkit.Config{Registry: registry, Start: start}), &c
}

// outcomesOf returns the outcomes in history, oldest first.
func outcomesOf(kit *testkit.Kit) (outcomes []jobs.Outcome) {
	for _, row := range kit.Ended() {
		outcomes = append(outcomes, row.Outcome)
	}
	return outcomes
}

// waits requires the one row of a periodic function.
func waits(t *testing.T, kit *testkit.Kit, at time.Time) {
	t.Helper()
	kit.RequireWaiting(jobs.PeriodicKey("report"), at)
	if n := len(kit.Waiting()); n != 1 {
		t.Errorf("%d rows wait", n)
	}
}

// withCrontab makes a runner of another binary, with another crontab.
func withCrontab(t *testing.T, kit *testkit.Kit, name, crontab string) *jobs.Registry {
	t.Helper()
	registry := jobs.NewRegistry()
	registry.Periodic(name, crontab, jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	_, err := slots.NewRunner(t.Context(), slots.Config{
		DB: kit.DB, Registry: registry, Now: kit.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestAPeriodicFunctionRunsAtEachInstant(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 9 * * mon-fri")
	waits(t, kit, testkit.Start().Add(day)) // the first instant after now
	kit.RunFor(7 * day)
	c.want(t, "01-05 09:00", "01-06 09:00", "01-07 09:00", "01-08 09:00", "01-11 09:00")
	waits(t, kit, testkit.Start().Add(8*day))
	if diff := cmp.Diff(slices.Repeat([]jobs.Outcome{jobs.OutcomeDone}, 5), outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
}

func TestAPeriodicFunctionFollowsTheClocksOfItsZone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		start time.Time
		want  []string // UTC
	}{
		{"forward", time.Date(2100, time.March, 26, 12, 0, 0, 0, time.UTC), []string{
			"03-27 01:30", "03-28 01:00", "03-29 00:30", // 02:30 does not exist on the 28th: at 03:00
		}},
		{"back", time.Date(2100, time.October, 29, 12, 0, 0, 0, time.UTC), []string{
			"10-30 00:30", "10-31 00:30", "11-01 01:30", // 02:30 comes twice on the 31st: the first one
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kit, c := periodic(t, test.start, "30 2 * * *", jobs.Zone("Europe/Berlin"))
			kit.RunFor(3 * day)
			c.want(t, test.want...)
		})
	}
}

func TestMissedInstantsRunAsOnMisfireSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy  jobs.Misfire
		want    []string
		outcome jobs.Outcome
	}{
		{jobs.MisfireRun, []string{"01-08 06:00"}, jobs.OutcomeDone},
		{jobs.MisfireEach, []string{"01-05 06:00", "01-06 06:00", "01-07 06:00", "01-08 06:00"}, jobs.OutcomeDone},
		{jobs.MisfireSkip, nil, jobs.OutcomeSkipped},
	} {
		t.Run(string(test.policy), func(t *testing.T) {
			t.Parallel()
			kit, c := periodic(t, testkit.Start(), "0 6 * * *", jobs.OnMisfire(test.policy))
			kit.Clock.Set(testkit.Start().Add(4 * day)) // no run in the meantime
			kit.RunDue()
			c.want(t, test.want...)
			if diff := cmp.Diff([]jobs.Outcome{test.outcome}, outcomesOf(kit)); diff != "" {
				t.Error(diff)
			}
			waits(t, kit, testkit.Start().Add(5*day-3*time.Hour))
			kit.RunFor(day)
			c.want(t, "01-09 06:00")
		})
	}
}

func TestInstantsOfOneSlotRunOnceOrEach(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "*/5 * * * *")
	kit.RunFor(30 * time.Minute)
	c.want(t, "01-04 09:15", "01-04 09:30")
	each, c := periodic(t, testkit.Start(), "*/5 * * * *", jobs.OnMisfire(jobs.MisfireEach))
	each.RunFor(30 * time.Minute)
	c.want(t, "01-04 09:05", "01-04 09:10", "01-04 09:15", "01-04 09:20", "01-04 09:25", "01-04 09:30")
}

func TestAFailedInstantIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 12 * * *", jobs.Retry(2))
	c.err = errors.New("the printer is on fire")
	kit.RunFor(6 * time.Hour)
	c.want(t, "01-04 12:00", "01-04 12:00", "01-04 12:00")
	if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeFailed}, outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
	waits(t, kit, testkit.Start().Add(day+3*time.Hour))
	c.err = nil
	kit.RunFor(day)
	c.want(t, "01-05 12:00")
}

func TestAnErrorOfOneOfManyInstantsRepeatsThatInstant(t *testing.T) {
	t.Parallel()
	var c instants
	registry := jobs.NewRegistry()
	registry.Periodic("report", "0 6 * * *", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
		_, _ = c.check(ctx, job)
		if job.Instant.Day() == 6 && job.ErrorCount == 0 {
			return nil, errors.New("the printer is on fire")
		}
		return nil, nil
	}), jobs.OnMisfire(jobs.MisfireEach))
	kit := testkit.New(t, testkit.Config{Registry: registry})
	kit.Clock.Set(testkit.Start().Add(4 * day))
	kit.RunDue()
	c.want(t, "01-05 06:00", "01-06 06:00")
	kit.RunFor(time.Hour)
	c.want(t, "01-06 06:00", "01-07 06:00", "01-08 06:00")
}

// dailies is a periodic function that enqueues and writes for each instant, and fails for the 7th as often as it is
// called up to a number of times.
type dailies struct {
	calls map[string]int
	times int
	fail  func(ctx context.Context, tx *sqlx.Tx) error
}

func (f *dailies) check(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (jobs.Result, error) {
	d := job.Instant.Format("01-02")
	f.calls[d]++
	if tx != nil {
		if _, err := tx.ExecContext(ctx, "insert into public.report values ($1)", d); err != nil {
			return jobs.Result{}, err
		}
	}
	if d == "01-07" && f.calls[d] <= f.times {
		return jobs.Result{}, f.fail(ctx, tx)
	}
	return jobs.Result{Enqueue: []jobs.Request{{
		JobExec: "mail", EntityName: "day", EntityKey: d, CheckAt: testkit.Start().Add(240 * time.Hour),
	}}}, nil
}

// after misses four instants of the function, and runs the slots of half a day. It returns the days that are written in
// the database, and those for which a mail waits.
func (f *dailies) after(t *testing.T, inTx bool, opts ...jobs.Option) (kit *testkit.Kit, written, mails []string) {
	t.Helper()
	f.calls = map[string]int{}
	shape := jobs.InTx(f.check)
	if !inTx {
		shape = jobs.Row(func(ctx context.Context, job jobs.FutureJob) (jobs.Result, error) { return f.check(ctx, nil, job) })
	}
	registry := jobs.NewRegistry()
	registry.Register("mail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	registry.Periodic("report", "0 6 * * *", shape, append(opts, jobs.OnMisfire(jobs.MisfireEach), jobs.MaxBackOff(1))...)
	kit = testkit.New(t, testkit.Config{Registry: registry})
	kit.DB.MustExec("create table public.report (day text)")
	kit.Clock.Set(testkit.Start().Add(4 * day))
	kit.RunDue()
	kit.RunFor(12 * time.Hour)
	if err := kit.DB.Select(&written, "select day from public.report order by 1"); err != nil {
		t.Fatal(err)
	}
	for _, row := range kit.Waiting() {
		if row.JobExec == "mail" {
			mails = append(mails, row.EntityKey)
		}
	}
	slices.Sort(mails)
	return kit, written, mails
}

var failures = map[string]func(ctx context.Context, tx *sqlx.Tx) error{
	"an error": func(context.Context, *sqlx.Tx) error { return errors.New("the printer is on fire") },
	"a panic":  func(context.Context, *sqlx.Tx) error { panic("the printer is on fire") },
	"an error of a statement": func(ctx context.Context, tx *sqlx.Tx) error {
		if tx == nil {
			return errors.New("the printer is on fire")
		}
		_, err := tx.ExecContext(ctx, "select 1 / 0")
		return err
	},
	"a timeout": func(ctx context.Context, _ *sqlx.Tx) error {
		<-ctx.Done()
		return ctx.Err()
	},
}

func TestAnInstantThatFailsOnceLeavesAllOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		for _, inTx := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in a transaction: %t", name, inTx), func(t *testing.T) {
				t.Parallel()
				f := dailies{times: 1, fail: fail}
				_, written, mails := f.after(t, inTx, jobs.Timeout(time.Second))
				want := []string{"01-05", "01-06", "01-07", "01-08"}
				if diff := cmp.Diff(want, mails); diff != "" {
					t.Errorf("mails (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, written); inTx && diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAnInstantThatAlwaysFailsFailsAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("it fails in each way; an instant that fails once remains")
	}
	t.Parallel()
	for name, fail := range failures {
		for _, inTx := range []bool{false, true} {
			for _, retry := range []int{0, 2} {
				if retry == 0 && inTx && name == "a timeout" {
					continue // it undoes all calls of the only try
				}
				t.Run(fmt.Sprintf("%s, in a transaction: %t, %d retries", name, inTx, retry), func(t *testing.T) {
					t.Parallel()
					f := dailies{times: 99, fail: fail}
					kit, written, mails := f.after(t, inTx, jobs.Retry(retry), jobs.Timeout(time.Second))
					want := []string{"01-05", "01-06", "01-08"}
					if diff := cmp.Diff(want, mails); diff != "" {
						t.Errorf("mails (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(want, written); inTx && diff != "" {
						t.Errorf("reports (-want +got):\n%s", diff)
					}
					tries := retry + 1
					outcomes := []jobs.Outcome{jobs.OutcomeDone, jobs.OutcomeFailed, jobs.OutcomeDone}
					if inTx && name == "a timeout" { // the row of the 5th and that of the 6th each had a try with the 7th
						tries, outcomes = tries+2, slices.Insert(outcomes, 0, jobs.OutcomeDone)
					}
					if f.calls["01-07"] != tries {
						t.Errorf("%d calls for the 7th, want %d", f.calls["01-07"], tries)
					}
					if diff := cmp.Diff(outcomes, outcomesOf(kit)); diff != "" {
						t.Errorf("outcomes (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// The database takes no check so far ahead, and so refuses the outcome of the only try.
func TestAnInstantWhoseOutcomeIsRefusedIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	for _, policy := range []jobs.Misfire{jobs.MisfireRun, jobs.MisfireEach} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			var c instants
			var once sync.Once
			registry := jobs.NewRegistry()
			registry.Register("mail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
			registry.Periodic("report", "0 6 * * *", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (result jobs.Result, err error) {
				_, err = c.check(ctx, job)
				once.Do(func() {
					result.Enqueue = []jobs.Request{{JobExec: "mail", EntityName: "day", EntityKey: "1", CheckAt: job.Slot.AddDate(150, 0, 0)}}
				})
				return result, err
			}), jobs.OnMisfire(policy), jobs.Retry(0))
			kit := testkit.New(t, testkit.Config{Registry: registry})
			kit.Clock.Set(testkit.Start().Add(4 * day))
			kit.RunDue()
			if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeFailed}, outcomesOf(kit)); diff != "" {
				t.Error(diff)
			}
			if policy == jobs.MisfireRun { // it was called for the latest instant
				c.want(t, "01-08 06:00")
				waits(t, kit, testkit.Start().Add(5*day-3*time.Hour))
				return
			}
			c.want(t, "01-05 06:00", "01-06 06:00", "01-07 06:00", "01-08 06:00")
			kit.RunFor(time.Hour)
			c.want(t, "01-06 06:00", "01-07 06:00", "01-08 06:00")
			waits(t, kit, testkit.Start().Add(5*day-3*time.Hour))
		})
	}
}

func TestARowWhoseEndIsRefusedUncheckedIsFollowedByTheInstantsThatWereNotMissed(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	for policy, want := range map[jobs.Misfire][]string{
		jobs.MisfireRun:  {"01-04 12:00"},
		jobs.MisfireEach: {"01-04 11:00", "01-04 12:00"},
		jobs.MisfireSkip: {"01-04 12:00"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			kit, c := periodic(t, testkit.Start(), "0 * * * *", jobs.OnMisfire(policy), jobs.Retry(0), jobs.Deadline(time.Hour))
			kit.DB.MustExec(`
				create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'told to'; end $$;
				create trigger refuse before insert on prescient.future_job_history
				for each row when (new.outcome in ('deadline', 'skipped')) execute function public.refuse()`)
			kit.Clock.Set(testkit.Start().Add(3 * time.Hour))
			kit.RunDue()
			if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeFailed}, outcomesOf(kit)); diff != "" {
				t.Error(diff)
			}
			kit.RunFor(15 * time.Minute)
			c.want(t, want...)
		})
	}
}

func TestARefusedOutcomeOfASecondLookIsOfTheInstantOfTheFirst(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "such a row fails the run there")
	var c instants
	registry := jobs.NewRegistry()
	registry.Register("mail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	registry.Periodic("report", "0 * * * *", jobs.Row(func(ctx context.Context, job jobs.FutureJob) (result jobs.Result, err error) {
		_, err = c.check(ctx, job)
		switch {
		case job.CheckCount > 0:
			result.Enqueue = []jobs.Request{{JobExec: "mail", EntityName: "day", EntityKey: "1", CheckAt: job.Slot.AddDate(150, 0, 0)}}
		case job.Instant.Hour() == 12:
			result.Next = job.After(75 * time.Minute)
		}
		return result, err
	}), jobs.Retry(0))
	kit := testkit.New(t, testkit.Config{Registry: registry, Start: testkit.Start().Add(150 * time.Minute)})
	kit.RunFor(105 * time.Minute)
	c.want(t, "01-04 12:00", "01-04 12:00")
	if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeFailed}, outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
	entries, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.PeriodicKey("report"))
	if err != nil {
		t.Fatal(err)
	}
	var failed []time.Time
	for _, e := range entries {
		if e.What == "failed" {
			failed = append(failed, e.Instants...)
		}
	}
	if diff := cmp.Diff([]time.Time{testkit.Start().Add(3 * time.Hour).UTC()}, failed); diff != "" {
		t.Error(diff)
	}
	kit.RunFor(15 * time.Minute)
	c.want(t, "01-04 13:00")
}

func TestATimelineNamesEachInstantThatAPeriodicFunctionWasCalledFor(t *testing.T) {
	t.Parallel()
	f := dailies{times: 99, fail: failures["an error"]}
	kit, _, _ := f.after(t, true, jobs.Retry(1))
	entries, err := admin.New(kit.Client).Timeline(t.Context(), kit.DB, jobs.PeriodicKey("report"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		text := e.What
		for _, at := range e.Instants {
			text += " " + at.Format("01-02")
		}
		if e.Error != "" {
			text += ": " + e.Error
		}
		got = append(got, text)
	}
	want := []string{
		"enqueued", "done 01-05 01-06",
		"enqueued", "retry: the printer is on fire", "failed 01-07: the printer is on fire",
		"enqueued", "done 01-08",
		"enqueued", "waiting",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Instants that come before the function is done with its own are still to come.
func TestAPeriodicFunctionMayLookAgainForItsInstant(t *testing.T) {
	t.Parallel()
	for crontab, test := range map[string]struct {
		want  []string
		waits time.Duration
	}{
		"0 12 * * *": {[]string{"01-04 12:00", "01-04 12:00"}, day + 3*time.Hour},
		"0 * * * *": {
			[]string{"01-04 10:00", "01-04 11:00", "01-04 12:00", "01-04 12:00", "01-04 13:00", "01-04 14:00", "01-04 15:00"},
			7 * time.Hour,
		},
	} {
		t.Run(crontab, func(t *testing.T) {
			t.Parallel()
			var c instants
			registry := jobs.NewRegistry()
			registry.Periodic("report", crontab, jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
				_, _ = c.check(ctx, job)
				if job.CheckCount > 0 || job.Instant.Hour() != 12 {
					return nil, nil
				}
				return job.After(time.Hour), nil
			}))
			kit := testkit.New(t, testkit.Config{Registry: registry})
			kit.RunFor(6 * time.Hour)
			c.want(t, test.want...)
			waits(t, kit, testkit.Start().Add(test.waits))
		})
	}
}

func TestARetryIsForTheInstantOfTheCallThatFailed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		crontab string
		outage  time.Duration
		errors  int // of the first instant that the function is called for
		want    []string
	}{
		// The last back-off, of four slots, ends after 11:00. Then two instants have come, and the latest is run.
		"after a later instant has come": {
			"0 * * * *", 0, 3,
			[]string{"01-04 10:00", "01-04 10:00", "01-04 10:00", "01-04 10:00", "01-04 12:00", "01-04 13:00"},
		},
		"of an instant before which others were missed": {
			"0 6 * * *", 4 * day, 1, []string{"01-08 06:00", "01-08 06:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c instants
			calls := 0
			registry := jobs.NewRegistry()
			registry.Periodic("report", test.crontab, jobs.Row(func(ctx context.Context, job jobs.FutureJob) (*time.Time, error) {
				_, _ = c.check(ctx, job)
				if calls++; calls <= test.errors {
					return nil, errors.New("the printer is on fire")
				}
				return nil, nil
			}))
			kit := testkit.New(t, testkit.Config{Registry: registry})
			if test.outage > 0 {
				kit.Clock.Advance(test.outage)
				kit.RunDue()
			}
			kit.RunFor(4 * time.Hour)
			c.want(t, test.want...)
		})
	}
}

func TestTheRowOfAnExpiredInstantIsFollowed(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 6 * * *", jobs.Deadline(time.Hour))
	kit.Clock.Set(testkit.Start().Add(4 * day))
	kit.RunDue()
	c.want(t)
	if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeDeadline}, outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
	waits(t, kit, testkit.Start().Add(5*day-3*time.Hour))
}

// Instants of the slot that has begun last are not missed, nor those of the slot after it.
func TestARowThatEndsUncheckedIsFollowedByTheFirstInstantThatWasNotMissed(t *testing.T) {
	t.Parallel()
	skip, each := jobs.OnMisfire(jobs.MisfireSkip), jobs.OnMisfire(jobs.MisfireEach)
	for name, test := range map[string]struct {
		crontab string
		opts    []jobs.Option
		outage  time.Duration // from 09:00 on
		outcome jobs.Outcome
		want    []string // in the slot after the outage
	}{
		"skipped, within the slot of an instant": {
			"0 * * * *",
			[]jobs.Option{skip},
			2 * time.Hour, jobs.OutcomeSkipped,
			[]string{"01-04 11:00"},
		},
		"skipped, before the slot of an instant": {
			"5 * * * *",
			[]jobs.Option{skip},
			130 * time.Minute, jobs.OutcomeSkipped,
			[]string{"01-04 11:05"},
		},
		"skipped, after the slot of an instant": {
			"0 * * * *",
			[]jobs.Option{skip},
			135 * time.Minute, jobs.OutcomeSkipped,
			nil,
		},
		"past its deadline": {
			"0 * * * *",
			[]jobs.Option{jobs.Deadline(30 * time.Minute)},
			2 * time.Hour,
			jobs.OutcomeDeadline,
			[]string{"01-04 11:00"},
		},
		"past its deadline, and others are not": {
			"0 * * * *",
			[]jobs.Option{each, jobs.Deadline(90 * time.Minute)},
			185 * time.Minute, jobs.OutcomeDeadline,
			[]string{"01-04 11:00", "01-04 12:00"},
		},
		"past its deadline, and others are skipped": {
			"0 10,11 * * *",
			[]jobs.Option{skip, jobs.Deadline(90 * time.Minute)},
			185 * time.Minute, jobs.OutcomeDeadline, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit, c := periodic(t, testkit.Start(), test.crontab, test.opts...)
			kit.Clock.Set(testkit.Start().Add(test.outage))
			kit.RunDue()
			c.want(t)
			if diff := cmp.Diff([]jobs.Outcome{test.outcome}, outcomesOf(kit)); diff != "" {
				t.Error(diff)
			}
			kit.RunUntil(kit.Client.Grid().Next(kit.Now()))
			c.want(t, test.want...)
		})
	}
}

func TestInstantsOfASlotThatAFunctionWasPausedInAreSkippedTogether(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "5,10,20 9 * * *", jobs.OnMisfire(jobs.MisfireSkip))
	operator := admin.New(kit.Client)
	if _, err := operator.Pause(t.Context(), kit.DB, "report"); err != nil {
		t.Fatal(err)
	}
	kit.RunFor(15 * time.Minute) // the slot of 09:05 and 09:10
	if _, err := operator.Resume(t.Context(), kit.DB, "report"); err != nil {
		t.Fatal(err)
	}
	kit.RunDue()
	if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeSkipped}, outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
	waits(t, kit, testkit.Start().Add(30*time.Minute)) // the slot of 09:20
	kit.RunFor(15 * time.Minute)
	c.want(t, "01-04 09:20")
}

func TestRewindLetsAFunctionWaitForTheFirstInstantAfterTheClockThatWasAhead(t *testing.T) {
	pgtest.NotOnCitus(t, "the kit makes no now() there")
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 * * * *")
	rewound := func(want int) {
		t.Helper()
		if n, err := kit.Client.RewindPeriodic(reserved.Caller{}, t.Context(), kit.DB); n != want || err != nil {
			t.Errorf("%d rows were rewound, %v, want %d", n, err, want)
		}
	}
	kit.Clock.Set(testkit.Start().Add(365 * day))
	kit.RunDue()
	c.want(t, "01-04 09:00") // of the year after
	rewound(0)
	kit.Clock.Set(testkit.Start())
	for clock, want := range map[time.Time]int64{testkit.Start(): 1, testkit.Start().Add(366 * day): 0} {
		l, err := ledger.New(t.Context(), kit.DB, "", func() time.Time { return clock })
		if err != nil {
			t.Fatal(err)
		}
		if a, err := l.Ahead(t.Context()); err != nil || a.Periodic != want {
			t.Errorf("at %s: %+v, %v, want %d rows", clock, a, err, want)
		}
	}
	rewound(1)
	rewound(0)
	if _, err := kit.Ledger.Rewind(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits(t, kit, testkit.Start().Add(time.Hour))
	kit.RunFor(2 * time.Hour)
	c.want(t, "01-04 10:00", "01-04 11:00")
}

// An error, or a deferral, has moved the row to a slot of that time. Its instant is still to come, or to be run.
func TestRewindTakesBackARowThatMovedWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []jobs.Option
		err  error
		want []string // since the clock is right
	}{
		"retried":  {nil, errors.New("the printer is on fire"), []string{"01-04 11:00", "01-04 12:00"}},
		"deferred": {[]jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}, nil, []string{"01-04 10:00", "01-04 11:00", "01-04 12:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit, c := periodic(t, testkit.Start(), "0 * * * *", test.opts...)
			c.err = test.err
			kit.Clock.Set(testkit.Start().Add(365 * day))
			kit.RunDue()
			c.called, c.err = nil, nil
			kit.Clock.Set(testkit.Start().Add(65 * time.Minute))
			if a, err := kit.Ledger.Ahead(t.Context()); err != nil || a.Periodic != 1 {
				t.Errorf("%+v, %v", a, err)
			}
			if n, err := kit.Client.RewindPeriodic(reserved.Caller{}, t.Context(), kit.DB); n != 1 || err != nil {
				t.Errorf("%d rows were rewound, %v", n, err)
			}
			if _, err := kit.Ledger.Rewind(t.Context()); err != nil {
				t.Fatal(err)
			}
			kit.RunFor(2 * time.Hour)
			c.want(t, test.want...)
		})
	}
}

func TestRewindLeavesARowThatItCannotRead(t *testing.T) {
	t.Parallel()
	kit, _ := periodic(t, testkit.Start(), "0 * * * *")
	kit.DB.MustExec(`update prescient.future_job set payload = '{"crontab": "every day"}', enqueued_at = '2101-01-01'`)
	if n, err := kit.Client.RewindPeriodic(reserved.Caller{}, t.Context(), kit.DB); n != 0 || err != nil {
		t.Error(n, err)
	}
	waits(t, kit, testkit.Start().Add(time.Hour))
}

func TestTenMachinesMakeOneRow(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{})
	var machines sync.WaitGroup
	for range 10 {
		machines.Go(func() { withCrontab(t, kit, "report", "0 12 * * *") })
	}
	machines.Wait()
	waits(t, kit, testkit.Start().Add(3*time.Hour))
	for range 10 { // of a new version
		machines.Go(func() { withCrontab(t, kit, "report", "0 15 * * *") })
	}
	machines.Wait()
	waits(t, kit, testkit.Start().Add(6*time.Hour))
	if diff := cmp.Diff([]jobs.Outcome{jobs.OutcomeReplaced}, outcomesOf(kit)); diff != "" {
		t.Error(diff)
	}
}

func TestTheCrontabOfTheBinaryThatStartedLastCounts(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 12 * * *")
	withCrontab(t, kit, "report", "0 11 * * *")
	waits(t, kit, testkit.Start().Add(2*time.Hour))
	withCrontab(t, kit, "report", "0 12 * * *")
	waits(t, kit, testkit.Start().Add(3*time.Hour))
	kit.Clock.Set(testkit.Start().Add(3 * time.Hour))
	withCrontab(t, kit, "report", "0 11 * * *")
	waits(t, kit, testkit.Start().Add(3*time.Hour)) // a due row is checked, and the row after it is the registered one's
	kit.RunDue()
	c.want(t, "01-04 12:00")
	waits(t, kit, testkit.Start().Add(day+3*time.Hour))
}

func TestARenamedPeriodicFunctionLeavesItsRow(t *testing.T) {
	t.Parallel()
	kit, _ := periodic(t, testkit.Start(), "0 12 * * *")
	registry := withCrontab(t, kit, "summary", "0 12 * * *")
	var rows []string
	err := kit.DB.Select(&rows, `
		select j.name from prescient.future_job f join prescient.job j using (job) where f.entity_name = 'periodic' order by j.name`)
	if err != nil || !slices.Equal(rows, []string{"report", "summary"}) {
		t.Fatal(rows, err)
	}
	if _, known := registry.Lookup("report"); known {
		t.Error("the registry knows the old name")
	}
}

func TestARowThatItsOwnerCancelledIsMadeAgain(t *testing.T) {
	t.Parallel()
	kit, _ := periodic(t, testkit.Start(), "0 12 * * *")
	if found, err := kit.Client.Cancel(t.Context(), jobs.OwnTx(kit.DB), jobs.PeriodicKey("report")); !found || err != nil {
		t.Fatal(found, err)
	}
	withCrontab(t, kit, "report", "0 12 * * *")
	waits(t, kit, testkit.Start().Add(3*time.Hour))
}

func TestACheckOfAnotherKeyIsNotPeriodic(t *testing.T) {
	t.Parallel()
	kit, c := periodic(t, testkit.Start(), "0 12 * * *")
	kit.Enqueue(jobs.Request{JobExec: "report", EntityName: "customer", EntityKey: "42"}, testkit.Start().Add(time.Hour))
	kit.RunFor(2 * time.Hour)
	c.want(t, time.Time{}.Format("01-02 15:04"))
	waits(t, kit, testkit.Start().Add(3*time.Hour))
}

func TestPeriodicPanicsForAMistake(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	for name, register := range map[string]func(r *jobs.Registry){
		"crontab": func(r *jobs.Registry) { r.Periodic("report", "every day", jobs.Row(fn)) },
		"zone":    func(r *jobs.Registry) { r.Periodic("report", "0 9 * * *", jobs.Row(fn), jobs.Zone("Europe/Atlantis")) },
		"no zone": func(r *jobs.Registry) { r.Register("report", jobs.Row(fn), jobs.Zone("Europe/Berlin")) },
		"each":    func(r *jobs.Registry) { r.Register("report", jobs.Row(fn), jobs.OnMisfire(jobs.MisfireEach)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("it was registered")
				}
			}()
			register(jobs.NewRegistry())
		})
	}
}
