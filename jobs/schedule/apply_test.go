package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/schedule"
)

// given is a list as Apply takes it.
func given(specs ...schedule.Spec) iter.Seq2[schedule.Spec, error] {
	return func(yield func(schedule.Spec, error) bool) {
		for _, spec := range specs {
			if !yield(spec, nil) {
				return
			}
		}
	}
}

func TestApplyCreatesAndUpdatesAndDeletesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"same", "changed", "gone", "pause"} {
		w.create(schedule.Spec{ID: id, Crontab: "@daily", Payload: json.RawMessage(`{"a": 1, "b": 2}`)})
	}
	before := w.get("same")
	specs := given(
		schedule.Spec{ID: "same", Crontab: "@daily", Payload: json.RawMessage(`{"b":2,"a":1}`)},
		schedule.Spec{ID: "new", Crontab: "@hourly", Exclude: []string{"sat", "sun"}},
		schedule.Spec{ID: "changed", Crontab: "@hourly"},
		schedule.Spec{ID: "pause", Crontab: "@daily", Payload: json.RawMessage(`{"a": 1, "b": 2}`), Paused: true},
	)
	first := map[string]schedule.Action{"changed": schedule.Update, "new": schedule.Create, "pause": schedule.Update}
	pruned := map[string]schedule.Action{"gone": schedule.Delete}
	for _, test := range []struct {
		how     schedule.ApplyOptions
		counts  schedule.ApplyResult
		changed map[string]schedule.Action
		rows    int
	}{
		{schedule.ApplyOptions{DryRun: true}, schedule.ApplyResult{Created: 1, Updated: 2, Unchanged: 1}, first, 4},
		{schedule.ApplyOptions{}, schedule.ApplyResult{Created: 1, Updated: 2, Unchanged: 1}, first, 4},
		{schedule.ApplyOptions{}, schedule.ApplyResult{Unchanged: 4}, map[string]schedule.Action{}, 4},
		{schedule.ApplyOptions{Prune: true, MaxDeletes: 1, DryRun: true}, schedule.ApplyResult{Deleted: 1, Unchanged: 4}, pruned, 4},
		{schedule.ApplyOptions{Prune: true, MaxDeletes: 1}, schedule.ApplyResult{Deleted: 1, Unchanged: 4}, pruned, 3},
	} {
		changed := map[string]schedule.Action{}
		test.how.Changed = func(id string, action schedule.Action) { changed[id] = action }
		counts, err := w.store.Apply(t.Context(), w.db, specs, test.how)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.counts, counts) + cmp.Diff(test.changed, changed); diff != "" {
			t.Errorf("%+v: %s", test.how, diff)
		}
		if n := w.count(`select count(*) from prescient.future_job`); n != test.rows {
			t.Errorf("%+v: %d rows wait, want %d", test.how, n, test.rows)
		}
	}
	if diff := cmp.Diff(before, w.get("same")); diff != "" {
		t.Error(diff)
	}
}

func TestApplyDeletesNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 3 {
		w.create(every(fmt.Sprint(i)))
	}
	_, err := w.store.Apply(t.Context(), w.db, given(every("new")), schedule.ApplyOptions{Prune: true, MaxDeletes: 2})
	if e, ok := errors.AsType[*schedule.PruneError](err); !ok || *e != (schedule.PruneError{Deletes: 3, MaxDeletes: 2}) {
		t.Errorf("%v", err)
	}
	if n := w.count(`select count(*) from prescient.schedule where id <> 'new'`); n != 3 || w.count(`select count(*) from prescient.schedule`) != 3 {
		t.Errorf("%d of 3 schedules are left", n)
	}
}

// The second page has what the first has, too.
func TestApplyTakesAnyNumberAndFindsWhatIsGivenTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("it applies more schedules than one statement takes")
	}
	t.Parallel()
	w := setup(t)
	const n = 12_000
	many := func(more ...schedule.Spec) iter.Seq2[schedule.Spec, error] {
		return func(yield func(schedule.Spec, error) bool) {
			for spec := range specs(n) {
				if !yield(spec, nil) {
					return
				}
			}
			given(more...)(yield)
		}
	}
	if _, err := w.store.Apply(t.Context(), w.db, many(every("schedule-0")), schedule.ApplyOptions{}); fields(err) != "id" || !strings.Contains(err.Error(), "given twice") {
		t.Error(err)
	}
	for _, want := range []schedule.ApplyResult{{Created: n}, {Unchanged: n}} {
		if counts, err := w.store.Apply(t.Context(), w.db, many(), schedule.ApplyOptions{Prune: true}); err != nil || counts != want {
			t.Errorf("%+v, %v, want %+v", counts, err, want)
		}
	}
	if counts, err := w.store.Apply(t.Context(), w.db, given(), schedule.ApplyOptions{Prune: true}); err != nil || counts.Deleted != n {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestSchedulesThatAreNilAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	_, apply := w.store.Apply(t.Context(), w.db, nil, schedule.ApplyOptions{Prune: true})
	_, create := w.store.CreateAll(t.Context(), w.db, nil)
	for want, err := range map[string]error{"apply schedules: the sequence is nil": apply, "create schedules: the sequence is nil": create} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestApplyChangesNothingWhenOneIsBad(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create(every("a"))
	for want, specs := range map[string][]schedule.Spec{
		`schedule "b": crontab: `:             {{ID: "b", Crontab: "often"}},
		`id: "b" is given twice`:              {every("b"), every("b")},
		`create schedule "b": crontab: it wo`: {{ID: "b", Crontab: "@at 1"}},
		`update schedule "a": crontab: it wo`: {{ID: "a", Crontab: "@at 1"}},
		`PostgreSQL cannot store`:             {{ID: "b", Crontab: "@daily", Payload: json.RawMessage(`"\u0000"`)}},
	} {
		for _, dryRun := range []bool{true, false} {
			_, err := w.store.Apply(t.Context(), w.db, given(specs...), schedule.ApplyOptions{DryRun: dryRun})
			if err == nil || !strings.Contains(err.Error(), want) || fields(err) == "" {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	broken := errors.New("line 7")
	_, err := w.store.Apply(t.Context(), w.db, func(yield func(schedule.Spec, error) bool) {
		_ = yield(every("b"), nil) && yield(schedule.Spec{}, broken)
	}, schedule.ApplyOptions{})
	if err != broken { //nolint:errorlint // it is returned as it is
		t.Error(err)
	}
	if s := w.get("a"); s.Version != 1 || w.count(`select count(*) from prescient.schedule`) != 1 {
		t.Errorf("%+v", s)
	}
}
