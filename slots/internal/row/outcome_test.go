package row

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
)

var (
	done   = &guard.Verdict{Outcome: jobs.Done}
	failed = &guard.Verdict{Outcome: jobs.Failed, Error: "boom"}
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

func TestOutcomesThatDifferInTheirRowAloneAreGrouped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of     []Outcome
		groups []int // how many outcomes are in each
		rest   int
	}{
		"none":                       {nil, nil, 0},
		"few that are all alike":     {alike(1, 3, done), []int{3}, 0},
		"an error has its own text":  {alike(1, 60, failed), nil, 60},
		"many of two kinds":          {slices.Concat(alike(1, 60, done), alike(100, 70, next)), []int{60, 70}, 0},
		"few of many":                {slices.Concat(alike(1, 60, done), alike(100, 49, next)), []int{60}, 49},
		"few of each":                {slices.Concat(alike(1, 2, done), alike(100, 2, next)), nil, 4},
		"with another run time":      {append(alike(1, 60, done), Outcome{ID: 99, Verdict: done, Ran: true, Duration: 1}), []int{60}, 1},
		"with one that was not run":  {append(alike(1, 60, done), Outcome{ID: 99, Verdict: done}), []int{60}, 1},
		"with a payload of the next": {append(alike(1, 60, done), Outcome{ID: 99, Verdict: &guard.Verdict{Outcome: jobs.Done, Payload: []byte("1")}, Ran: true}), []int{60}, 1},
	} {
		groups, rest := Alike(test.of)
		var sizes []int
		for _, g := range groups {
			sizes = append(sizes, len(g))
		}
		slices.Sort(sizes)
		if diff := cmp.Diff(test.groups, sizes); diff != "" || len(rest) != test.rest {
			t.Errorf("%s: %d in the rest, want %d\n%s", name, len(rest), test.rest, diff)
		}
		for _, list := range append(groups, rest) {
			if !slices.IsSortedFunc(list, func(a, b Outcome) int { return int(a.ID - b.ID) }) {
				t.Errorf("%s: not in the order of their ids", name)
			}
		}
	}
}

func TestATallyCountsAnErrorThatIsRetriedAsFailed(t *testing.T) {
	t.Parallel()
	n := Expected(slices.Concat(alike(1, 1, done), alike(2, 2, failed), alike(4, 3, again), alike(7, 4, next)))
	n.Plus(Tally{Yielded: 5})
	if want := (Tally{Finished: 1, Failed: 5, Rescheduled: 4, Yielded: 5}); n != want || n.Checked() != 10 {
		t.Errorf("%+v, want %+v; %d checked", n, want, n.Checked())
	}
}
