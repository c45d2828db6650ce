package row

import (
	"slices"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

var (
	done   = &guard.Verdict{Outcome: jobs.OutcomeDone}
	failed = &guard.Verdict{Outcome: jobs.OutcomeFailed, Error: "boom"}
	again  = &guard.Verdict{Move: guard.MoveRetry, Error: "boom"}
	next   = &guard.Verdict{Move: guard.MoveNext, Next: time.Unix(0, 0)}
)

// alike returns n outcomes of a verdict, from an id on.
func alike(id int64, n int, v *guard.Verdict) (list []Outcome) {
	for i := range n {
		list = append(list, Outcome{ID: id + int64(i), Verdict: v, Ran: true})
	}
	return list
}

func TestATallyCountsAnErrorThatIsRetriedAsFailed(t *testing.T) {
	t.Parallel()
	n := Expected(slices.Concat(alike(1, 1, done), alike(2, 2, failed), alike(4, 3, again), alike(7, 4, next)))
	n.Plus(Tally{Yielded: 5})
	if want := (Tally{Finished: 1, Failed: 5, Rescheduled: 4, Yielded: 5, GaveUp: 2}); n != want || n.Checked() != 10 {
		t.Errorf("%+v, want %+v; %d checked", n, want, n.Checked())
	}
}

func TestATallyTellsWhichOutcomesWereRecorded(t *testing.T) {
	t.Parallel()
	all := slices.Concat(alike(1, 2, again), alike(3, 2, failed), alike(5, 2, done), alike(7, 2, next))
	for _, test := range []struct {
		n    Tally
		want []int64
	}{
		{Expected(all), []int64{1, 2, 3, 4, 5, 6, 7, 8}},
		{Tally{Finished: 2, Rescheduled: 2, Failed: 2, Yielded: 2}, []int64{1, 2, 5, 6, 7, 8}},
		{Tally{Finished: 1, Failed: 2, GaveUp: 2, Yielded: 5}, []int64{3, 4, 5}},
		{Tally{Rescheduled: 1, Failed: 2, GaveUp: 1, Yielded: 5}, []int64{1, 3, 7}},
		{Tally{Yielded: 8}, []int64{}},
	} {
		got := IDs(test.n.Of(all))
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: %v, want %v", test.n, got, test.want)
		}
	}
	two := alike(1, 3, failed) // of two jobs
	two[2].Number = 7
	if got := IDs((Tally{Failed: 1, GaveUp: 1, Yielded: 2}).Of(two)); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("of two jobs: %v", got)
	}
}
