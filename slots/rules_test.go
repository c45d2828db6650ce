package slots_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rules makes the registry of a world know rules, whose checks end their rows.
func (w *world) rules() {
	w.registry.OnRule(reserved.Caller{}, func(r *jobs.Registry, name string) { r.Register(name, jobs.Row(finish)) })
}

func finish(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }

func untilStopped(ctx context.Context, _ jobs.FutureJob) (*time.Time, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// apply adds a rule to the database.
func (w *world) apply(name string) {
	w.t.Helper()
	w.db.MustExecContext(w.t.Context(), `insert into prescient.rule (name, relation, definition, state) values ($1, 'orders', '{}', 'active')`, name)
}

func TestARunKnowsTheRulesThatWereAppliedBeforeItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.rules()
	w.enqueue("late", slot(1), 2)
	w.enqueue("unknown", slot(1), 1)
	w.apply("late")
	result := w.run(slot(1))
	if result.Finished != 2 || !cmp.Equal(result.Unknown, []string{"unknown"}) {
		t.Errorf("%+v, want 2 rows finished, and one of a job that is unknown", result)
	}
	w.apply("unknown")
	caught, err := w.runner().CatchUp(t.Context(), slots.CatchUp{})
	if err != nil || len(caught.Results) != 1 || caught.Results[0].Finished != 1 {
		t.Errorf("%+v, %v, want one row finished", caught, err)
	}
	if jobs.NewRegistry().KnowsRules(reserved.Caller{}) {
		t.Error("a registry knows rules that nobody made it know")
	}
}

// A daemon has one runner for all its catch-ups.
func TestARunnerForgetsARuleThatIsRemoved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.rules()
	w.apply("late")
	r := w.runner()
	if _, err := r.CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec("delete from prescient.rule")
	w.db.MustExec("update prescient.job set registered_at = null")
	w.enqueue("late", slot(1), 1)
	w.clock.Set(slot(2))
	caught, err := r.CatchUp(t.Context(), slots.CatchUp{})
	if err != nil || len(caught.Results) != 1 || !cmp.Equal(caught.Results[0].Unknown, []string{"late"}) {
		t.Errorf("%+v, %v, want one row of a job that is unknown", caught, err)
	}
	if n := w.count("select count(*) from prescient.job where registered_at is not null"); n != 0 {
		t.Error("the rule is registered again")
	}
}

func TestARunLeavesTheRowsOfRulesIfItsRegistryKnowsNone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue("late", slot(1), 1)
	w.apply("late")
	if result := w.run(slot(1)); !cmp.Equal(result.Unknown, []string{"late"}) {
		t.Errorf("%+v, want one row of a job that is unknown", result)
	}
}

func TestAJobOfTheBinaryIsNotReplacedByARuleOfItsName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.OnRule(reserved.Caller{}, func(*jobs.Registry, string) { t.Error("the rule took the name") })
	w.registry.Register("late", jobs.Row(finish))
	w.apply("late")
	w.enqueue("late", slot(1), 1)
	if result := w.run(slot(1)); result.Finished != 1 {
		t.Errorf("%+v, want one row finished", result)
	}
}

func TestARunThatWaitsForItsBoundaryKnowsARuleThatIsAppliedMeanwhile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.rules()
	w.enqueue("late", slot(1), 1)
	r := w.runner(atBoundary)
	w.apply("late")
	result, err := r.Run(t.Context(), slot(1))
	if err != nil || result.Finished != 1 {
		t.Errorf("%+v, %v, want one row finished", result, err)
	}
}

// atBoundary lets a run begin a moment before its slot.
func atBoundary(c *slots.Config) {
	looks := 0 // at the clock
	c.Now = func() time.Time {
		if looks++; looks > 4 { // the run waits
			return slot(1)
		}
		return slot(1).Add(-time.Millisecond)
	}
}

func TestARunThatWaitsForItsBoundarySurvivesAFaultWhenItLooksForRules(t *testing.T) {
	t.Parallel()
	for _, kind := range []pgtest.Kind{pgtest.Cut, pgtest.LostReply, pgtest.Outage} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.rules()
			w.enqueue("late", slot(1), 1)
			faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
			r := w.runner(atBoundary, func(c *slots.Config) { c.DB = faults.DB })
			w.apply("late")
			faults.Set(pgtest.Fault{
				At: 1, Of: func(text string) bool { return strings.Contains(text, "register_jobs") },
				Kind: kind, Pause: 100 * time.Millisecond, Reset: true,
			})
			result, err := r.Run(t.Context(), slot(1))
			if err != nil || result.Finished != 1 {
				t.Errorf("%+v, %v, want one row finished", result, err)
			}
			if k, _ := faults.Hit(); k == 0 {
				t.Error("the fault did not happen")
			}
		})
	}
}

func TestARunThatIsStoppedWhileItLooksForRulesSaysSo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// The stop may come too late for the statement. A slot without rows is done then.
	w.registry.OnRule(reserved.Caller{}, func(r *jobs.Registry, name string) { r.Register(name, jobs.Row(untilStopped)) })
	w.enqueue("late", slot(1), 1)
	w.apply("late")
	faults := pgtest.OpenFaults(t, w.url, pgtest.Unprepared)
	r := w.runner(atBoundary, func(c *slots.Config) { c.DB = faults.DB })
	ctx, stop := context.WithCancel(t.Context())
	faults.Set(pgtest.Fault{
		At: 1, Of: func(text string) bool { return strings.Contains(text, "register_jobs") },
		Kind: pgtest.SomebodyFirst, First: stop,
	})
	if _, err := r.Run(ctx, slot(1)); !errors.Is(err, slots.ErrStopped) {
		t.Errorf("%v, want %v", err, slots.ErrStopped)
	}
}
