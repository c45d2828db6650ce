package guard

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/spread"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
)

// The slot being run is slotAt(0). In time is a few seconds into it; late is two and a half slots
// after it.
var (
	inTime = Moment{Slot: slotAt(0), Now: slotAt(0).Add(3 * time.Second)}
	late   = Moment{Slot: slotAt(0), Now: slotAt(2).Add(7 * time.Minute)}
	early  = Moment{Slot: slotAt(0), Now: slotAt(0).Add(-time.Second)} // a clock that runs behind
)

// slotAt returns the n-th slot after noon.
func slotAt(n int) time.Time {
	return grid.Default.Add(time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC), n)
}

// define registers a job with options and returns it.
func define(opts ...jobs.Option) *jobs.Definition {
	r := jobs.NewRegistry()
	r.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), opts...)
	d, _ := r.Lookup("job")
	return d
}

func TestWhatACheckReturnsDecidesItsRow(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	movedTo := func(slot time.Time) Verdict { return Verdict{Move: MoveNext, Next: slot} }
	moved := func(n int) Verdict { return movedTo(slotAt(n)) }
	retried := func(n int) Verdict { return Verdict{Move: MoveRetry, Next: slotAt(n), Error: "boom"} }
	ended := func(o jobs.Outcome) Verdict { return Verdict{Outcome: o} }
	horizon := jobs.Horizon(24 * time.Hour)
	within := []jobs.Option{jobs.Within(time.Hour)}
	keyed := jobs.FutureJob{JobExec: "job", EntityName: "order", EntityKey: "5"}
	for _, test := range []struct {
		name   string
		opts   []jobs.Option
		moment Moment
		job    jobs.FutureJob
		next   time.Time // zero: nil
		err    error
		want   Verdict
	}{
		{name: "nil, nil is done", moment: inTime, want: ended(jobs.OutcomeDone)},
		{name: "nil, nil at the last check is done", moment: late, job: jobs.FutureJob{CheckCount: 4, ErrorCount: 3}, want: ended(jobs.OutcomeDone)},

		{name: "a slot", moment: inTime, next: slotAt(4), want: moved(4)},
		{name: "between slots, rounded up", moment: inTime, next: slotAt(4).Add(time.Second), want: moved(5)},
		{name: "the next instant of the slot", moment: inTime, next: slotAt(0).Add(time.Microsecond), want: moved(1)},
		{name: "now", moment: inTime, next: inTime.Now, want: moved(1)},
		{name: "another zone", moment: inTime, next: slotAt(4).In(time.FixedZone("", -3600)), want: moved(4)},
		{name: "a clock that runs behind", moment: early, next: slotAt(1), want: moved(1)},
		{name: "after errors", moment: inTime, job: jobs.FutureJob{ErrorCount: 5}, next: slotAt(1), want: moved(1)},

		{name: "the slot itself is past", moment: inTime, next: slotAt(0), want: ended(jobs.OutcomePast)},
		{name: "before the slot is past", moment: inTime, next: slotAt(-3), want: ended(jobs.OutcomePast)},
		{name: "the zero time is past", moment: inTime, next: time.Unix(-62135596800, 1), want: ended(jobs.OutcomePast)},
		{name: "too short after the slot for the database", moment: inTime, next: slotAt(0).Add(400), want: ended(jobs.OutcomePast)},
		{name: "past at the last check", moment: inTime, job: jobs.FutureJob{CheckCount: 4}, next: slotAt(0), want: ended(jobs.OutcomePast)},

		{name: "late, a slot that has gone", moment: late, next: slotAt(1), want: moved(3)},
		{name: "late, the current slot", moment: late, next: slotAt(2), want: moved(3)},
		{name: "late, now", moment: late, next: late.Now, want: moved(3)},
		{name: "late, the next slot", moment: late, next: slotAt(3), want: moved(3)},
		{name: "late, a slot ahead", moment: late, next: slotAt(7), want: moved(7)},
		{name: "exactly as a slot begins", moment: Moment{Slot: slotAt(0), Now: slotAt(2)}, next: slotAt(2), want: moved(3)},

		{name: "within an hour", opts: within, moment: inTime, next: slotAt(4), want: movedTo(spread.Key(keyed.Key()).PickSlot(grid.Default, slotAt(4), time.Hour, slotAt(1)))},
		{name: "late, within an hour", opts: within, moment: late, next: slotAt(1), want: movedTo(spread.Key(keyed.Key()).PickSlot(grid.Default, slotAt(1), time.Hour, slotAt(3)))},
		{name: "late, within an hour that has passed", opts: within, moment: Moment{Slot: slotAt(0), Now: slotAt(9)}, next: slotAt(1), want: moved(10)},
		{name: "the slot itself within an hour is past", opts: within, moment: inTime, next: slotAt(0), want: ended(jobs.OutcomePast)},
		{name: "a window after the year 9999", opts: append(within, jobs.Horizon(1<<63-1)), moment: inTime, next: grid.Max(), want: ended(jobs.OutcomeHorizon)},

		{name: "the last check but one", moment: inTime, job: jobs.FutureJob{CheckCount: 3}, next: slotAt(1), want: moved(1)},
		{name: "the last check asks for more", moment: inTime, job: jobs.FutureJob{CheckCount: 4}, next: slotAt(1), want: ended(jobs.OutcomeMaxChecks)},
		{name: "more checks than that", moment: inTime, job: jobs.FutureJob{CheckCount: 9}, next: slotAt(1), want: ended(jobs.OutcomeMaxChecks)},
		{name: "a job of one check", opts: []jobs.Option{jobs.MaxChecks(1)}, moment: inTime, next: slotAt(1), want: ended(jobs.OutcomeMaxChecks)},
		{name: "a job of a hundred", opts: []jobs.Option{jobs.MaxChecks(100)}, moment: inTime, job: jobs.FutureJob{CheckCount: 98}, next: slotAt(1), want: moved(1)},

		{name: "at the horizon", opts: []jobs.Option{horizon}, moment: inTime, next: slotAt(96), want: moved(96)},
		{name: "beyond the horizon", opts: []jobs.Option{horizon}, moment: inTime, next: inTime.Now.Add(24*time.Hour + 1), want: ended(jobs.OutcomeHorizon)},
		{name: "five years and more", moment: inTime, next: inTime.Now.Add(jobs.DefaultHorizon + 1), want: ended(jobs.OutcomeHorizon)},
		{name: "after the year 9999", opts: []jobs.Option{jobs.Horizon(1<<63 - 1)}, moment: inTime, next: grid.Max().Add(1), want: ended(jobs.OutcomeHorizon)},
		{name: "as far as time goes", opts: []jobs.Option{jobs.Horizon(1<<63 - 1)}, moment: inTime, next: time.Unix(1<<62, 0), want: ended(jobs.OutcomeHorizon)},

		{name: "the first error", moment: inTime, err: boom, want: retried(1)},
		{name: "the second error", moment: inTime, job: jobs.FutureJob{ErrorCount: 1}, err: boom, want: retried(2)},
		{name: "the third error", moment: inTime, job: jobs.FutureJob{ErrorCount: 2}, err: boom, want: retried(4)},
		{name: "the fifth error", moment: inTime, job: jobs.FutureJob{ErrorCount: 4}, err: boom, want: retried(16)},
		{name: "the sixth error is the last", moment: inTime, job: jobs.FutureJob{ErrorCount: 5}, err: boom, want: Verdict{Outcome: jobs.OutcomeFailed, Error: "boom"}},
		{name: "the seventh of eight", opts: []jobs.Option{jobs.Retry(8)}, moment: inTime, job: jobs.FutureJob{ErrorCount: 6}, err: boom, want: retried(64)},
		{name: "the thousandth", opts: []jobs.Option{jobs.Retry(2000)}, moment: inTime, job: jobs.FutureJob{ErrorCount: 999}, err: boom, want: retried(64)},
		{name: "no retry", opts: []jobs.Option{jobs.Retry(0)}, moment: inTime, err: boom, want: Verdict{Outcome: jobs.OutcomeFailed, Error: "boom"}},
		{name: "the fourth, with a limit of three slots", opts: []jobs.Option{jobs.MaxBackOff(3)}, moment: inTime, job: jobs.FutureJob{ErrorCount: 3}, err: boom, want: retried(3)},
		{
			name: "with a pause beyond the year 9999", opts: []jobs.Option{jobs.Retry(math.MaxInt), jobs.MaxBackOff(1 << 40)}, moment: inTime,
			job: jobs.FutureJob{ErrorCount: 100}, err: boom, want: Verdict{Move: MoveRetry, Next: grid.Max(), Error: "boom"},
		},
		{
			name: "with the longest pause", opts: []jobs.Option{jobs.Retry(math.MaxInt), jobs.MaxBackOff(math.MaxInt)}, moment: inTime,
			job: jobs.FutureJob{ErrorCount: 100}, err: boom, want: Verdict{Move: MoveRetry, Next: grid.Max(), Error: "boom"},
		},
		{name: "the billionth", opts: []jobs.Option{jobs.Retry(math.MaxInt), jobs.MaxBackOff(1)}, moment: inTime, job: jobs.FutureJob{ErrorCount: 1e9}, err: boom, want: retried(1)},

		{name: "an error and a time is an error", moment: inTime, next: slotAt(9), err: boom, want: retried(1)},
		{name: "errors do not count as checks", moment: inTime, job: jobs.FutureJob{CheckCount: 4}, err: boom, want: retried(1)},
		{name: "an error of a late run", moment: late, err: boom, want: retried(3)},
		{name: "an error with a clock that runs behind", moment: early, err: boom, want: retried(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var next *time.Time
			if !test.next.IsZero() {
				next = &test.next
			}
			job := test.job
			job.JobExec, job.EntityName, job.EntityKey = keyed.JobExec, keyed.EntityName, keyed.EntityKey
			if diff := cmp.Diff(test.want, After(define(test.opts...), test.moment, &job, next, test.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackOffDoublesUpTo64Slots(t *testing.T) {
	t.Parallel()
	d := define(jobs.Retry(100))
	for n, want := range []int{1, 2, 4, 8, 16, 32, 64, 64, 64} {
		if v := After(d, inTime, &jobs.FutureJob{ErrorCount: n}, nil, errors.New("x")); !v.Next.Equal(slotAt(want)) {
			t.Errorf("after %d errors: %s, want %d slots later", n+1, v.Next, want)
		}
	}
}

func TestARowIsJudgedBeforeItsCheck(t *testing.T) {
	t.Parallel()
	caughtUp := func(m Moment) Moment { m.CaughtUp = true; return m }
	deadline := jobs.Deadline(time.Hour)
	at := func(d time.Duration) Moment { return Moment{Slot: slotAt(0), Now: slotAt(0).Add(d)} }
	for _, test := range []struct {
		name   string
		opts   []jobs.Option
		moment Moment
		want   Verdict
		ok     bool
	}{
		{"in time", nil, inTime, Verdict{}, true},
		{"late without a deadline", nil, at(1000 * time.Hour), Verdict{}, true},
		{"caught up", nil, caughtUp(late), Verdict{}, true},
		{"just within the deadline", []jobs.Option{deadline}, at(time.Hour), Verdict{}, true},
		{"just past the deadline", []jobs.Option{deadline}, at(time.Hour + 1), Verdict{Outcome: jobs.OutcomeDeadline}, false},
		{"caught up past the deadline", []jobs.Option{deadline}, caughtUp(at(2 * time.Hour)), Verdict{Outcome: jobs.OutcomeDeadline}, false},
		{"run", []jobs.Option{jobs.OnMisfire(jobs.MisfireRun)}, caughtUp(late), Verdict{}, true},
		{"skip", []jobs.Option{jobs.OnMisfire(jobs.MisfireSkip)}, caughtUp(late), Verdict{Outcome: jobs.OutcomeSkipped}, false},
		{"skip in a late run that is none", []jobs.Option{jobs.OnMisfire(jobs.MisfireSkip)}, late, Verdict{}, true},
		{"defer", []jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}, caughtUp(late), Verdict{Move: MoveDefer, Next: slotAt(3)}, false},
		{"defer as a slot begins", []jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}, caughtUp(at(15 * time.Minute)), Verdict{Move: MoveDefer, Next: slotAt(2)}, false},
		{"defer with a clock that runs behind", []jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}, caughtUp(early), Verdict{Move: MoveDefer, Next: slotAt(1)}, false},
		{"defer in a late run that is none", []jobs.Option{jobs.OnMisfire(jobs.MisfireDefer)}, late, Verdict{}, true},
		{"past the deadline comes before defer", []jobs.Option{deadline, jobs.OnMisfire(jobs.MisfireDefer)}, caughtUp(at(2 * time.Hour)), Verdict{Outcome: jobs.OutcomeDeadline}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := Before(define(test.opts...), test.moment)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
				t.Errorf("ok %t, want %t\n%s", ok, test.ok, diff)
			}
		})
	}
}

func TestAnErrorsTextIsMadeFitForTheDatabase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"plain":                    {"connect: refused", "connect: refused"},
		"NUL bytes":                {"a\x00b\x00", "ab"},
		"invalid UTF-8":            {"a\xff\xfeb", "a\uFFFDb"},
		"empty":                    {"", "an error without a text"},
		"NUL alone":                {"\x00\x00", "an error without a text"},
		"over-long":                {strings.Repeat("x", 5000) + "do that", strings.Repeat("x", 997) + " ... " + strings.Repeat("x", 991) + "do that"},
		"over-long, cut in a rune": {strings.Repeat("x", 996) + "ä" + strings.Repeat("x", 1000) + "ää", strings.Repeat("x", 996) + " ... " + strings.Repeat("x", 994) + "ää"},
		"over-long and invalid":    {strings.Repeat("\xffa", 3000), strings.Repeat("\uFFFDa", 249) + " ... a" + strings.Repeat("\uFFFDa", 249)},
		"just not too long":        {strings.Repeat("ä", 1000), strings.Repeat("ä", 1000)},
	} {
		v := After(define(jobs.Retry(0)), inTime, &jobs.FutureJob{}, nil, errors.New(test.text))
		if v.Error != test.want {
			t.Errorf("%s: %d bytes %.40q, want %d bytes %.40q", name, len(v.Error), v.Error, len(test.want), test.want)
		}
		if !utf8.ValidString(v.Error) || strings.ContainsRune(v.Error, 0) {
			t.Errorf("%s: not fit: %q", name, v.Error)
		}
	}
}
