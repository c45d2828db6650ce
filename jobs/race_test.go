package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// atOnce runs fn in n goroutines that start together.
func atOnce(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

func TestOfManyWhoEnqueueAKeyAtOnceOneRowWaits(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]jobs.OnConflict{
		"keep": jobs.Keep, "replace": jobs.Replace, "push back": jobs.PushBack(3 * time.Hour), "fail": jobs.Reject,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			const each = 10
			var mu sync.Mutex
			actions := map[jobs.EnqueueAction]int{}
			refused := 0
			atOnce(16, func(i int) {
				for n := range each {
					e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(1+i+n)), on)
					mu.Lock()
					switch {
					case errors.Is(err, jobs.ErrExists) && on == jobs.Reject:
						refused++
					case err != nil:
						t.Error(err)
					default:
						actions[e.Action]++
					}
					mu.Unlock()
				}
			})
			list := w.waiting()
			if len(list) != 1 || actions[jobs.ActionInserted] != 1 {
				t.Errorf("%d rows wait, %v", len(list), actions)
			}
			n := w.outcomes()
			if n[jobs.OutcomeReplaced] != actions[jobs.ActionReplaced] || len(w.history()) != n[jobs.OutcomeReplaced] {
				t.Errorf("actions %v, history %v", actions, n)
			}
			total := refused
			for _, n := range actions {
				total += n
			}
			if total != 16*each {
				t.Errorf("%d of %d calls have an end: %v, %d refused", total, 16*each, actions, refused)
			}
			first := list[0].FirstCheckAt
			if want := min(first.Add(3*time.Hour).Unix(), slot(25).Unix()); on == jobs.PushBack(3*time.Hour) && list[0].NextCheckAt.Unix() != want {
				t.Errorf("pushed back from %s to %s", first, list[0].NextCheckAt)
			}
		})
	}
}

func TestBulkCallsInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	policies := map[string]jobs.OnConflict{"keep": jobs.Keep, "replace": jobs.Replace, "push back": jobs.PushBack(0)}
	if testing.Short() {
		policies = map[string]jobs.OnConflict{"replace": jobs.Replace}
	}
	for name, on := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			atOnce(6, func(i int) {
				for n := range 3 {
					var list []jobs.Request
					for k := range 200 {
						list = append(list, check(fmt.Sprint(k), slot(1+i+n)))
					}
					if i%2 == 1 {
						slices.Reverse(list)
					}
					if _, err := w.client.EnqueueMany(t.Context(), jobs.OwnTx(w.db), list, on); err != nil {
						t.Error(err)
					}
				}
			})
			if n := len(w.waiting()); n != 200 {
				t.Errorf("%d rows wait", n)
			}
		})
	}
}

func TestACancelThatRacesAReplaceLosesNoRowAndLeavesNoneBehind(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	n := map[string]int{}
	count := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		n[what]++
	}
	atOnce(8, func(i int) {
		for range 40 {
			if i%2 == 0 {
				e, err := w.client.Enqueue(t.Context(), jobs.OwnTx(w.db), check("1", slot(4)), jobs.Replace)
				if err != nil {
					t.Error(err)
				}
				count(string(e.Action))
				continue
			}
			found, err := w.client.Cancel(t.Context(), jobs.OwnTx(w.db), keyOf("1"))
			if err != nil {
				t.Error(err)
			}
			if found {
				count("cancelled")
			}
		}
	})
	ended := w.outcomes()
	if ended[jobs.OutcomeCancelled] != n["cancelled"] || ended[jobs.OutcomeReplaced] != n["replaced"] || n["inserted"]+n["replaced"] != 160 {
		t.Errorf("calls %v, history %v", n, ended)
	}
	if left := len(w.waiting()); left != n["inserted"]-n["cancelled"] || left > 1 {
		t.Errorf("%d rows wait after %v", left, n)
	}
}

func TestMovesThatRaceEachOtherKeepOneRow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(check("1", slot(4)), jobs.Keep)
	atOnce(8, func(i int) {
		for n := range 20 {
			var found bool
			var err error
			if i%2 == 0 {
				_, found, err = w.client.Reschedule(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(1+n))
			} else {
				_, found, err = w.client.PushBack(t.Context(), jobs.OwnTx(w.db), keyOf("1"), slot(1+n+i), 0)
			}
			if err != nil || !found {
				t.Error(found, err)
			}
		}
	})
	if list := w.waiting(); len(list) != 1 || !list[0].FirstCheckAt.Equal(slot(4)) {
		t.Errorf("%+v", list)
	}
}
