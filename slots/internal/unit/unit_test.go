package unit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// definition returns a job of a registry.
func definition(register func(r *jobs.Registry)) *jobs.Definition {
	r := jobs.NewRegistry()
	register(r)
	for d := range r.All() {
		return d
	}
	return nil
}

var (
	single = definition(func(r *jobs.Registry) {
		r.Register("single", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	})
	batched = definition(func(r *jobs.Registry) {
		r.Register("batch", jobs.Batch(func(_ context.Context, b []jobs.FutureJob) ([]jobs.Result, error) {
			return make([]jobs.Result, len(b)), nil
		}),
			jobs.Timeout(time.Second), jobs.BatchSize(3))
	})
	grouped = definition(func(r *jobs.Registry) {
		r.Register("group", jobs.Group("family", func(_ context.Context, _ *sqlx.Tx, b []jobs.FutureJob) ([]jobs.Result, error) {
			return make([]jobs.Result, len(b)), nil
		}))
	})
)

// rows returns rows with the ids 1 to n, of which two neighbours have the same entity.
func rows(n int) (list []jobs.FutureJob) {
	for i := range n {
		list = append(list, jobs.FutureJob{ID: int64(i + 1), EntityName: "order", EntityKey: fmt.Sprint(i / 2)})
	}
	return list
}

// ids returns the ids of the claim's rows in each unit.
func ids(units []*Unit) (list [][]int64) {
	for _, u := range units {
		list = append(list, u.Claimed())
	}
	return list
}

func TestRowsAreDividedIntoCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		def   *jobs.Definition
		limit func(job jobs.FutureJob) string
		want  [][]int64
	}{
		"one a call":                   {single, func(jobs.FutureJob) string { return "" }, [][]int64{{1}, {2}, {3}, {4}, {5}}},
		"batches of a size":            {batched, func(jobs.FutureJob) string { return "" }, [][]int64{{1, 2, 3}, {4, 5}}},
		"batches of the same key":      {batched, func(j jobs.FutureJob) string { return fmt.Sprint(j.ID % 2) }, [][]int64{{1, 3, 5}, {2, 4}}},
		"the rows of an entity a call": {grouped, func(jobs.FutureJob) string { return "" }, [][]int64{{1, 2}, {3, 4}, {5}}},
	} {
		b := NewBuilder(rows(5))
		for i := range 5 {
			b.Add(i, test.def, 1, test.limit)
		}
		if diff := cmp.Diff(test.want, ids(b.Units)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Of a batch in which one row makes each call fail, the others succeed after a few calls.
func TestACallThatFailedAsAWholeIsDividedDownToTheRowToBlame(t *testing.T) {
	t.Parallel()
	whole := &Unit{Def: batched, Rows: rows(64)}
	todo, calls, failed := []*Unit{whole}, 0, [][]int64{}
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		calls++
		var err error
		for _, id := range u.IDs() {
			if id == 42 {
				err = errors.New("panic: row 42")
			}
		}
		switch {
		case err == nil:
		case u.FailedAsAWhole(err) && u.MayDivide(0, false):
			u.Failure.Whole = true
			todo = append(todo, u.Parts()...)
		default:
			failed = append(failed, u.IDs())
		}
	}
	if diff := cmp.Diff([][]int64{{42}}, failed); diff != "" || calls != 13 {
		t.Errorf("%d calls, want 13 (-want +got):\n%s", calls, diff)
	}
}

func TestARowThatIsLeftAloneGetsACallOfItsOwn(t *testing.T) {
	t.Parallel()
	const done, next, alone = 0, 1, 2
	for name, test := range map[string]struct {
		results []int
		left    [][]int64
		kept    []int64
	}{
		"some":              {[]int{done, alone, next, alone, next}, [][]int64{{2}, {4}, {3, 5}}, []int64{1}},
		"all alone":         {[]int{alone, alone}, [][]int64{{1}, {2}}, []int64{}},
		"all to the next":   {[]int{next, next}, nil, []int64{1, 2}},
		"one that is alone": {[]int{alone}, nil, []int64{1}},
		"none":              {[]int{done, done}, nil, []int64{1, 2}},
	} {
		u := &Unit{Def: batched, Rows: rows(len(test.results))}
		results := make([]jobs.Result, len(test.results))
		for i, r := range test.results {
			results[i].Err = []error{nil, leave.ErrToNext, leave.ErrAlone}[r]
		}
		left, kept := u.SplitLeft(results)
		if diff := cmp.Diff(test.left, ids(left)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(test.kept, u.IDs()); diff != "" || len(kept) != len(u.Rows) {
			t.Errorf("%s: %d results (-want +got):\n%s", name, len(kept), diff)
		}
	}
}

func TestACallIsNotDividedForAServiceThatIsDown(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	own := &Unit{Def: batched, Rows: rows(8), Failure: Failure{Own: true}}
	if own.FailedAsAWhole(down) || !own.FailedAsAWhole(fmt.Errorf("%w: %w", jobs.ErrDivide, down)) {
		t.Error("the error that a function returns for all rows is divided, or ErrDivide is not")
	}
	todo, calls := []*Unit{{Def: batched, Rows: rows(64)}}, 0
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		if calls++; u.Divisible() && u.MayDivide(batched.Timeout, true) {
			u.Failure.Whole = true
			todo = append(todo, u.Parts()...)
		}
	}
	if calls > 20 {
		t.Errorf("a service that hangs is waited for in %d calls", calls)
	}
}

func TestAWatchAbandonsACallOnce(t *testing.T) {
	t.Parallel()
	var w Watch
	w.Begin()
	if w.Abandon(-time.Second) {
		t.Error("a call is abandoned whose function has not started")
	}
	w.Start()
	if w.Abandon(time.Hour) || !w.Abandon(-time.Second) || w.Abandon(-time.Second) || w.End() || w.Reserve() {
		t.Error("a call ends after it was abandoned, or is abandoned twice or early")
	}
	w.Begin()
	w.Start()
	if !w.Reserve() || w.Abandon(-time.Second) || !w.End() {
		t.Error("a call is abandoned that is being recorded")
	}
}

func TestARecordWithoutAReplyStaysWithOnePartOfItsCall(t *testing.T) {
	t.Parallel()
	sent := &row.Sent{Part: 1}
	u := &Unit{Def: batched, Rows: rows(3), Tried: Tried{Unanswered: sent}, Failure: Failure{Whole: true}}
	parts := u.Parts()
	if len(parts) != 2 || parts[0].Tried.Unanswered != sent || parts[1].Tried.Unanswered != nil {
		t.Errorf("%+v", parts)
	}
}
