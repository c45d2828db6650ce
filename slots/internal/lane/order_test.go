package lane

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// page is the size of claims in these tests, and now is when they are.
const page = 100

var now = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

var (
	workers     = Spec{AtOnce: 10, Needs: Workers, Scarce: Workers}
	connections = Spec{AtOnce: 5, Needs: Workers | Connections, Scarce: Connections}
	limited     = Spec{Own: true, AtOnce: 1, Needs: Workers}
)

// plain is the lane of jobs that wait for workers alone, with rows of one job of a priority.
func plain(o *order, number int64, priority int) *Lane {
	return add(o, workers, offered{number, priority})
}

// add adds a lane that has nothing in hand yet.
func add(o *order, s Spec, list ...offered) *Lane {
	l := &Lane{Spec: s}
	o.add(l)
	l.load.size.Store(s.firstSize(page))
	for _, j := range list {
		l.offer(j)
	}
	return l
}

// chosen returns the first job of the lanes whose turn is next, n times; 0 for no lane.
func chosen(o *order, n int) (numbers []int64) {
	for range n {
		l := o.Next(now)
		if l == nil {
			return append(numbers, 0)
		}
		first := l.First()
		numbers = append(numbers, first[0])
		l.Claimed(first) // each has rows left
	}
	return numbers
}

func TestLanesHaveTheirTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most int64
		make func(o *order)
		want []int64 // the first jobs of the lanes that are chosen, one after the other
	}{
		"no lane": {0, func(*order) {}, []int64{0}},
		"no rows": {0, func(o *order) { add(o, workers) }, []int64{0}},
		"a lane":  {0, func(o *order) { plain(o, 1, 0) }, []int64{1, 1}},
		"lanes of one priority by turns": {0, func(o *order) {
			plain(o, 1, 0)
			plain(o, 2, 0)
			plain(o, 3, 0)
		}, []int64{1, 2, 3, 1, 2, 3}},
		"jobs of a lane by turns": {0, func(o *order) {
			add(o, workers, offered{1, 0}, offered{2, 0}, offered{3, 0})
		}, []int64{1, 2, 3, 1}},
		"jobs of a higher priority of a lane first": {0, func(o *order) {
			add(o, workers, offered{1, 0}, offered{2, 5}, offered{3, 5})
		}, []int64{2, 3, 2, 3}},
		"a lane of a higher priority first": {0, func(o *order) {
			plain(o, 1, 0)
			plain(o, 2, 7)
			plain(o, 3, -1)
		}, []int64{2, 2, 2}},
		"no lane while locked rows fill the memory for them": {0, func(o *order) {
			plain(o, 1, 0)
			o.memory.locked.Store(bytesLocked + 1)
		}, []int64{0}},
		"no lane whose rows that wait for a permit fill the memory for them, but the others": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, limited, offered{2, 0}).load.parked.Store(bytesParked + 1)
		}, []int64{1, 1}},
		"a lane without room holds up those that share its workers": {0, func(o *order) {
			plain(o, 1, 0)
			plain(o, 2, 7).load.unstarted.Store(page)
		}, []int64{0}},
		"but not those of its priority": {0, func(o *order) {
			plain(o, 1, 7)
			plain(o, 2, 7).load.unstarted.Store(page)
		}, []int64{1, 1}},
		"a lane with a limit of its own that is reached holds up no other": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, limited, offered{2, 7}).load.unstarted.Store(page)
		}, []int64{1, 1}},
		"a paused lane holds up no other": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, limited, offered{2, 7}).Pause(now.Add(1))
		}, []int64{1, 1}},
		"a lane whose pause is over": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, limited, offered{2, 7}).Pause(now)
		}, []int64{2, 2}},
		"a lane without room holds up those that share its connections": {0, func(o *order) {
			add(o, connections, offered{1, 0})
			add(o, connections, offered{2, 7}).load.unstarted.Store(page)
		}, []int64{0}},
		"and no other": {0, func(o *order) {
			add(o, connections, offered{1, 0})
			plain(o, 3, 0)
			add(o, connections, offered{2, 7}).load.unstarted.Store(page)
		}, []int64{3, 3}},
		"checks with a transaction hold up all others where workers are as scarce": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, Spec{AtOnce: 5, Needs: Workers | Connections, Scarce: Workers | Connections}, offered{2, 7}).load.unstarted.Store(page)
		}, []int64{0}},
		"workers that are waited for hold up checks with a transaction": {0, func(o *order) {
			add(o, connections, offered{1, 0})
			plain(o, 2, 7).load.unstarted.Store(page)
		}, []int64{0}},
		"of lanes with room the highest priority comes first": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, connections, offered{2, 5})
			add(o, limited, offered{3, 7})
		}, []int64{3, 3}},
		"half of a claim waits to be started": {0, func(o *order) {
			l := plain(o, 1, 0)
			l.load.unstarted.Store(l.load.size.Load() / 2)
		}, []int64{1}},
		"more than half of a claim waits to be started": {0, func(o *order) {
			l := plain(o, 1, 0)
			l.load.unstarted.Store(l.load.size.Load()/2 + 1)
		}, []int64{0}},
		"four pages are in memory": {0, func(o *order) {
			plain(o, 1, 0)
			o.memory.rows.Store(4 * page)
		}, []int64{0}},
		"fewer than four pages are in memory": {0, func(o *order) {
			plain(o, 1, 0)
			o.memory.rows.Store(4*page - 1)
		}, []int64{1}},
		"four pages of others leave room for a lane with a limit of its own": {0, func(o *order) {
			add(o, limited, offered{1, 0})
			o.memory.rows.Store(4 * page)
		}, []int64{1}},
		"four claims of a lane with a limit of its own are in memory": {0, func(o *order) {
			l := add(o, limited, offered{1, 0})
			l.load.kept.Store(4 * l.load.size.Load())
		}, []int64{0}},
		"large rows are in memory": {0, func(o *order) {
			plain(o, 1, 0)
			add(o, limited, offered{2, 0})
			o.memory.bytes.Store(64<<20 + 1)
		}, []int64{0}},
		"as many rows were taken as may be": {10, func(o *order) {
			plain(o, 1, 0)
			o.taken.Store(10)
		}, []int64{0}},
		"one row less was taken": {10, func(o *order) {
			plain(o, 1, 0)
			o.taken.Store(9)
		}, []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &order{memory: new(memory), page: page, most: test.most}
			test.make(o)
			if diff := cmp.Diff(test.want, chosen(o, len(test.want))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAClaimHasAsManyRowsAsFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most, taken int64
		size, fits  int64
		want        int64
	}{
		"its size":                     {size: 40, want: 40},
		"small rows":                   {size: 40, fits: 1000, want: 40},
		"large rows":                   {size: 40, fits: 3, want: 3},
		"what is left of a limit":      {most: 100, taken: 90, size: 40, want: 10},
		"a limit that is reached":      {most: 100, taken: 100, size: 40, want: 0},
		"less than is left of a limit": {most: 100, taken: 10, size: 40, want: 40},
	} {
		o := &order{memory: new(memory), page: page, most: test.most}
		o.taken.Store(test.taken)
		l := new(Lane)
		l.load.size.Store(test.size)
		l.load.fits.Store(test.fits)
		if got := o.Want(l); got != test.want {
			t.Errorf("%s: %d rows, want %d", name, got, test.want)
		}
	}
}

func TestTheSizeOfClaimsFollowsTheTimeOfTheirChecks(t *testing.T) {
	t.Parallel()
	one, many := Spec{AtOnce: 8}, Spec{Whole: true, AtOnce: 8}
	for name, test := range map[string]struct {
		spec Spec
		took []time.Duration
		want []int64 // the first size, and that after each claim
	}{
		"quick checks":                     {one, []time.Duration{0, 0, 0}, []int64{32, 100, 100, 100}},
		"checks of a second":               {one, []time.Duration{time.Second, 250 * time.Millisecond, 2 * time.Second}, []int64{32, 32, 32, 32}},
		"slow checks":                      {one, slices.Repeat([]time.Duration{time.Minute}, 6), []int64{32, 16, 8, 4, 2, 1, 1}},
		"slow and quick again":             {one, []time.Duration{time.Minute, 0}, []int64{32, 16, 64}},
		"batches":                          {many, []time.Duration{0, time.Minute}, []int64{page, page, page}},
		"more workers than rows of a page": {Spec{AtOnce: 1000}, []time.Duration{0}, []int64{page, page}},
	} {
		sizes := []int64{test.spec.firstSize(page)}
		for _, took := range test.took {
			sizes = append(sizes, test.spec.nextSize(sizes[len(sizes)-1], took, page))
		}
		if diff := cmp.Diff(test.want, sizes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestJobsWithoutRowsLeftAreNotClaimedAgain(t *testing.T) {
	t.Parallel()
	l := add(&order{memory: new(memory), page: page}, Spec{AtOnce: 1}, offered{1, 5}, offered{2, 5}, offered{3, 5}, offered{4, 0}, offered{1, 5})
	for _, step := range []struct{ first, left []int64 }{
		{[]int64{1, 2, 3}, []int64{1, 2, 3}},
		{[]int64{2, 3, 1}, []int64{1, 2}},
		{[]int64{1, 2}, []int64{2}},
		{[]int64{2}, nil},
		{[]int64{4}, nil},
		{nil, nil},
	} {
		if diff := cmp.Diff(step.first, l.First()); diff != "" {
			t.Fatal(diff)
		}
		l.Claimed(step.left)
	}
}

func TestRowsWaitForRoomHereOrForOtherRunners(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most          int64
		make          func(o *order)
		waits, paused bool
	}{
		"no rows":               {0, func(o *order) { add(o, Spec{}) }, false, false},
		"rows":                  {0, func(o *order) { plain(o, 1, 0) }, true, false},
		"rows of a paused lane": {0, func(o *order) { plain(o, 1, 0).Pause(now.Add(1)) }, false, true},
		"some of both": {0, func(o *order) {
			plain(o, 1, 0)
			plain(o, 2, 0).Pause(now.Add(1))
		}, true, true},
		"as many as may be were taken": {1, func(o *order) {
			plain(o, 1, 0)
			o.taken.Store(1)
		}, false, false},
		"forgotten": {0, func(o *order) {
			plain(o, 1, 0)
			o.forget()
		}, false, false},
	} {
		o := &order{memory: new(memory), page: page, most: test.most}
		test.make(o)
		if waits, paused := o.Waits(now), o.IsPaused(now); waits != test.waits || paused != test.paused {
			t.Errorf("%s: waits %t, paused %t", name, waits, paused)
		}
	}
}

// Jobs of one priority have equal shares of the claims, whatever lane each of them is in: a lane by turns with the others,
// and its jobs by turns within it.
func TestNoJobHasMoreThanItsShareOfTheClaims(t *testing.T) {
	t.Parallel()
	type share map[int64]int
	for name, test := range map[string]struct {
		make   func(o *order) (busy *Lane) // the lane that has no room for every other claim; nil: none
		claims int
		want   share // claims of each job
	}{
		"a lane for each job": {func(o *order) *Lane {
			plain(o, 1, 0)
			plain(o, 2, 0)
			plain(o, 3, 0)
			return nil
		}, 60, share{1: 20, 2: 20, 3: 20}},
		"jobs that share a lane share its turns": {func(o *order) *Lane {
			add(o, workers, offered{1, 0}, offered{2, 0}, offered{3, 0})
			plain(o, 4, 0)
			return nil
		}, 60, share{1: 10, 2: 10, 3: 10, 4: 30}},
		"lanes of several kinds": {func(o *order) *Lane {
			plain(o, 1, 0)
			add(o, connections, offered{2, 0})
			add(o, limited, offered{3, 0}, offered{4, 0})
			return nil
		}, 60, share{1: 20, 2: 20, 3: 10, 4: 10}},
		"a lane that often has no room leaves those turns to the others alike": {func(o *order) *Lane {
			plain(o, 1, 0)
			plain(o, 2, 0)
			return plain(o, 3, 0)
		}, 60, share{1: 23, 2: 22, 3: 15}},
		"a higher priority has all claims while it has room": {func(o *order) *Lane {
			plain(o, 1, 0)
			plain(o, 2, 5)
			return nil
		}, 60, share{2: 60}},
		"jobs of a lower priority share what a limit leaves to them": {func(o *order) *Lane {
			plain(o, 1, 0)
			plain(o, 2, 0)
			return add(o, limited, offered{3, 5})
		}, 60, share{1: 15, 2: 15, 3: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &order{memory: new(memory), page: page}
			busy := test.make(o)
			got := share{}
			for n := range test.claims {
				if busy != nil {
					busy.load.unstarted.Store(int64(n % 2 * page))
				}
				for _, number := range chosen(o, 1) {
					got[number]++
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A job whose rows run out leaves its turns to the others of its lane.
func TestAJobWithoutRowsLeavesItsTurnsToTheOthers(t *testing.T) {
	t.Parallel()
	o := &order{memory: new(memory), page: page}
	add(o, workers, offered{1, 0}, offered{2, 0}, offered{3, 0})
	left := map[int64]int{1: 2, 2: 5, 3: 100}
	var got []int64
	for range 12 {
		l := o.Next(now)
		first := l.First()
		var more []int64
		for i, number := range first {
			if i == 0 {
				got = append(got, number)
				left[number]--
			}
			if left[number] > 0 {
				more = append(more, number)
			}
		}
		l.Claimed(more)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 1, 2, 3, 2, 3, 2, 3, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
}
