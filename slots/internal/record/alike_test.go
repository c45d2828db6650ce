package record

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/guard"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/row"
)

var (
	done   = &guard.Verdict{Outcome: jobs.OutcomeDone}
	failed = &guard.Verdict{Outcome: jobs.OutcomeFailed, Error: "boom"}
	next   = &guard.Verdict{Move: guard.MoveNext, Next: time.Unix(0, 0)}
)

// some returns n outcomes of a verdict, from an id on.
func some(id int64, n int, v *guard.Verdict) (list []row.Outcome) {
	for i := range n {
		list = append(list, row.Outcome{ID: id + int64(i), Verdict: v, Ran: true})
	}
	return list
}

func TestOutcomesThatDifferInTheirRowAloneAreGrouped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of     []row.Outcome
		groups []int // how many outcomes are in each
		rest   int
	}{
		"none":                       {nil, nil, 0},
		"few that are all alike":     {some(1, 3, done), []int{3}, 0},
		"an error has its own text":  {some(1, 60, failed), nil, 60},
		"many of two kinds":          {slices.Concat(some(1, 60, done), some(100, 70, next)), []int{60, 70}, 0},
		"few of many":                {slices.Concat(some(1, 60, done), some(100, 49, next)), []int{60}, 49},
		"few of each":                {slices.Concat(some(1, 2, done), some(100, 2, next)), nil, 4},
		"with another run time":      {append(some(1, 60, done), row.Outcome{ID: 99, Verdict: done, Ran: true, Duration: 1}), []int{60}, 1},
		"with one that was not run":  {append(some(1, 60, done), row.Outcome{ID: 99, Verdict: done}), []int{60}, 1},
		"with a payload of the next": {append(some(1, 60, done), row.Outcome{ID: 99, Verdict: &guard.Verdict{Outcome: jobs.OutcomeDone, Payload: []byte("1")}, Ran: true}), []int{60}, 1},
	} {
		groups, rest := alike(test.of)
		var sizes []int
		for _, g := range groups {
			sizes = append(sizes, len(g))
		}
		slices.Sort(sizes)
		if diff := cmp.Diff(test.groups, sizes); diff != "" || len(rest) != test.rest {
			t.Errorf("%s: %d in the rest, want %d\n%s", name, len(rest), test.rest, diff)
		}
		for _, list := range append(groups, rest) {
			if !slices.IsSortedFunc(list, func(a, b row.Outcome) int { return int(a.ID - b.ID) }) {
				t.Errorf("%s: not in the order of their ids", name)
			}
		}
	}
}
