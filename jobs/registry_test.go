package jobs_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/jobs"
)

func done(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }

func doneTx(context.Context, *sqlx.Tx, jobs.FutureJob) (*time.Time, error) { return nil, nil }

func TestAMistakeInARegistrationPanicsAtOnceAndNamesTheJob(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		register func(*jobs.Registry)
		want     string
	}{
		"empty name":         {func(r *jobs.Registry) { r.Register("", jobs.Row(done)) }, "must not be empty"},
		"long name":          {func(r *jobs.Registry) { r.Register(strings.Repeat("x", 201), jobs.Row(done)) }, "at most 200 bytes"},
		"NUL in the name":    {func(r *jobs.Registry) { r.Register("a\x00", jobs.Row(done)) }, "NUL"},
		"name that is taken": {func(r *jobs.Registry) { r.Register("taken", jobs.Row(done)) }, `"taken": the name is registered already`},
		"taken by the other": {func(r *jobs.Registry) { r.Register("taken", jobs.InTx(doneTx)) }, `"taken": the name is registered already`},
		"reserved":           {func(r *jobs.Registry) { r.Register("schedule", jobs.Row(done)) }, `"schedule": the name belongs to a job of prescient`},
		"reserved, periodic": {func(r *jobs.Registry) { r.Periodic("schedule", "@daily", jobs.Row(done)) }, `"schedule": the name belongs to a job of prescient`},
		"reserved, a kind": {func(r *jobs.Registry) {
			jobs.Kind[int]{Name: "schedule"}.Register(r, jobs.Row(func(context.Context, *jobs.Job[int]) (*time.Time, error) { return nil, nil }))
		}, `"schedule": the name belongs to a job of prescient`},
		"no function":       {func(r *jobs.Registry) { r.Register("job", jobs.Row[jobs.FutureJob, *time.Time](nil)) }, `"job": the function is nil`},
		"no function, tx":   {func(r *jobs.Registry) { r.Register("job", jobs.InTx[jobs.FutureJob, *sqlx.Tx, *time.Time](nil)) }, `"job": the function is nil`},
		"MaxChecks":         {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.MaxChecks(0)) }, `"job": MaxChecks(0)`},
		"Timeout":           {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Timeout(0)) }, `"job": Timeout(0s)`},
		"Timeout, no unit":  {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Timeout(30)) }, `"job": Timeout: 30ns is less than 1ms. A number without a unit counts nanoseconds: write 30*time.Second`},
		"Horizon, no unit":  {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Horizon(5)) }, `"job": Horizon: 5ns`},
		"Deadline, no unit": {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Deadline(60)) }, `"job": Deadline: 60ns`},
		"SLA, no unit":      {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.SLA(60)) }, `"job": SLA: 60ns`},
		"Within, no unit":   {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Within(60)) }, `"job": Within(60ns)`},
		"Horizon":           {func(r *jobs.Registry) { r.Register("job", jobs.InTx(doneTx), jobs.Horizon(-time.Hour)) }, `"job": Horizon(-1h0m0s)`},
		"MaxBackOff":        {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.MaxBackOff(0)) }, `"job": MaxBackOff(0)`},
		"Retry":             {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Retry(-1)) }, `"job": Retry(-1)`},
		"Deadline":          {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Deadline(0)) }, `"job": Deadline(0s)`},
		"Concurrency":       {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.Concurrency(0)) }, `"job": Concurrency(0)`},
		"AtMost":            {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.AtMost(math.MaxInt32+1)) }, `"job": AtMost(2147483648)`},
		"PerSecond":         {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.PerSecond(0)) }, `"job": PerSecond(0)`},
		"LimitBy nothing":   {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.AtMost(1), jobs.LimitBy(nil)) }, `"job": LimitBy: the function is nil`},
		"WithPool, no tx":   {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.WithPool(new(sqlx.DB))) }, `"job": WithPool needs a function with a transaction`},
		"BatchSize 0": {func(r *jobs.Registry) {
			r.Register("job", jobs.Each[jobs.FutureJob, *sqlx.Tx, *time.Time](nil), jobs.BatchSize(0))
		}, `"job": `},
		"BatchSize, one row": {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.BatchSize(9)) }, `"job": BatchSize needs Batch`},
		"each nothing":       {func(r *jobs.Registry) { r.Register("job", jobs.Each[jobs.FutureJob, *sqlx.Tx, *time.Time](nil)) }, `"job": the function is nil`},
		"no middleware":      {func(r *jobs.Registry) { r.Use(nil) }, "use middleware: the function is nil"},
		"OnMisfire":          {func(r *jobs.Registry) { r.Register("job", jobs.Row(done), jobs.OnMisfire("later")) }, `"job": OnMisfire("later")`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := jobs.NewRegistry()
			r.Register("taken", jobs.Row(done))
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, test.want) {
					t.Errorf("panicked with %q, want %q", text, test.want)
				}
				n := 0
				for range r.All() {
					n++
				}
				if n != 1 {
					t.Errorf("%d jobs are registered after it", n)
				}
			}()
			test.register(r)
		})
	}
}

func TestAFamilyOfGroupJobsIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	one := func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) { return nil, nil }
	other := func(context.Context, *sqlx.Tx, []jobs.FutureJob) ([]jobs.Result, error) { return nil, nil }
	r := jobs.NewRegistry()
	mails := jobs.Group("mails", one)
	r.Register("mail.order", mails)
	r.Register("mail.invoice", mails)
	r.Register("letter", jobs.Group("letters", other))
	defer func() {
		want := `register job "mail.reminder": the family "mails" is registered already, with job "mail.invoice"`
		if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
			t.Errorf("panicked with %q, want %q", text, want)
		}
		if _, registered := r.Lookup("mail.reminder"); registered {
			t.Error("the job is registered all the same")
		}
	}()
	r.Register("mail.reminder", jobs.Group("mails", other))
}

func TestOptionsChangeTheDefaults(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("plain", jobs.Row(done))
	r.Register("all", jobs.InTx(doneTx), jobs.MaxChecks(1), jobs.Timeout(time.Second), jobs.Horizon(time.Hour), jobs.Retry(0),
		jobs.Deadline(time.Minute), jobs.Concurrency(3), jobs.MaxBackOff(2), jobs.OnMisfire(jobs.MisfireSkip))
	want := []*jobs.Definition{
		{Name: "all", MaxChecks: 1, Timeout: time.Second, Horizon: time.Hour, Retry: 0, MaxBackOff: 2, Deadline: time.Minute, Concurrency: 3, Misfire: jobs.MisfireSkip},
		{Name: "plain", MaxChecks: 5, Timeout: time.Minute, Horizon: 5 * 365 * 24 * time.Hour, Retry: 5, MaxBackOff: 64, Misfire: jobs.MisfireRun},
	}
	var got []*jobs.Definition
	for d := range r.All() {
		got = append(got, d)
		if d.InTx() != (d.Name == "all") || d.Batched() || d.Grouped() {
			t.Errorf("%s has another shape", d.Name)
		}
		if same, ok := r.Lookup(d.Name); !ok || same != d {
			t.Errorf("Lookup(%q) is another", d.Name)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(jobs.Definition{})); diff != "" {
		t.Error(diff)
	}
	for range r.All() {
		break // is allowed
	}
}

func TestACloneGrowsByItself(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("both", jobs.Row(done))
	clone := r.Clone()
	clone.Register("clone", jobs.Row(done))
	r.Register("original", jobs.Row(done))
	for registry, want := range map[*jobs.Registry][]string{r: {"both", "original"}, clone: {"both", "clone"}} {
		var got []string
		for d := range registry.All() {
			got = append(got, d.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A run leaves its rows to a binary that knows it.
func TestAJobThatIsNotRegisteredIsNotFound(t *testing.T) {
	t.Parallel()
	r := jobs.NewRegistry()
	r.Register("order.unshipped", jobs.Row(done))
	for _, name := range []string{"order.new", "Order.unshipped", ""} {
		if d, ok := r.Lookup(name); ok || d != nil {
			t.Errorf("Lookup(%q): %+v, %t", name, d, ok)
		}
	}
	if n := len(slices.Collect(r.All())); n != 1 {
		t.Errorf("%d jobs are registered after it", n)
	}
}

func TestARegistryIsEmptyAtFirst(t *testing.T) {
	t.Parallel()
	var r jobs.Registry
	for job := range r.All() {
		t.Errorf("has %s", job.Name)
	}
	clone := r.Clone()
	r.Register("job", jobs.Row(done))
	if _, known := r.Lookup("job"); !known {
		t.Error("does not take a job")
	}
	clone.Register("job", jobs.Row(done))
	if _, known := clone.Lookup("job"); !known {
		t.Error("its clone does not take a job")
	}
}
