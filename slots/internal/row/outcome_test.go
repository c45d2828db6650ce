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
	if want := (Tally{Finished: 1, Failed: 5, Rescheduled: 4, Yielded: 5}); n != want || n.Checked() != 10 {
		t.Errorf("%+v, want %+v; %d checked", n, want, n.Checked())
	}
}
