package slots_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prescient-go/prescient/sql/pgtest"
)

const (
	// longVariable lets every case be tried, instead of some.
	longVariable = "PRESCIENT_TEST_LONG"
	// seedVariable chooses the cases that are tried, and their order; usualSeed does where it is not set.
	seedVariable = "PRESCIENT_TEST_SEED"
	usualSeed    = 12
	// stages is how many trials take place at once: most of the time they wait for a lease to end.
	stages = 8
	// some is how many cases are tried when not all are.
	some = 240
)

// hazard is a fault, with what still holds after it.
type hazard struct {
	name      string
	fault     pgtest.Fault // at a round trip that is chosen for each trial
	actor     actor        // who goes first; nil: no other session
	overtaken bool         // the process stands still until another runner has taken its work over
	forever   bool         // and does so until it is killed
	shares    bool         // another runner works on the slot, or rows of it are left on purpose
}

// lossless tells whether every statement of the process has its effect, and its answer.
func (h hazard) lossless() bool { return h.fault.Kind == "" || h.actor != nil }

// hazards lists everything that may go wrong in a scenario.
func hazards(sc *scenario) []hazard {
	var list []hazard
	for _, kind := range []pgtest.Kind{pgtest.CrashBefore, pgtest.CrashAfter, pgtest.Cut, pgtest.LostReply, pgtest.TornReply, pgtest.FailedCommit} {
		list = append(list, hazard{name: string(kind), fault: pgtest.Fault{Kind: kind}})
	}
	const heartbeat, late = trialLease / 3, trialLease * 3 / 2
	for _, kind := range []pgtest.Kind{pgtest.Outage, pgtest.LateReply} {
		list = append(list, hazard{name: string(kind), fault: pgtest.Fault{Kind: kind, Pause: heartbeat * 4 / 3}})
	}
	for _, kind := range []pgtest.Kind{pgtest.LateReply, pgtest.StopBefore, pgtest.StopAfter} {
		list = append(list, hazard{name: "long " + string(kind), fault: pgtest.Fault{Kind: kind, Pause: late}, overtaken: true})
	}
	for _, kind := range []pgtest.Kind{pgtest.StopBefore, pgtest.StopAfter} {
		fault := pgtest.Fault{Kind: kind, Pause: time.Hour}
		list = append(list, hazard{name: string(kind) + " for good", fault: fault, overtaken: true, forever: true})
	}
	for _, name := range slices.Sorted(maps.Keys(deeds)) {
		ofRows := strings.HasPrefix(name, "enqueue") || strings.Contains(name, "cancel") || name == "reschedule"
		if ofRows && (sc.events || sc.asks) || name == "delete schedule" && !sc.events {
			continue // schedules are changed by their own commands
		}
		fault := pgtest.Fault{Kind: pgtest.SomebodyFirst, Pause: 200 * time.Millisecond}
		list = append(list, hazard{name: name, fault: fault, actor: deeds[name], shares: name == "pause"})
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		fault := pgtest.Fault{Kind: pgtest.SomebodyFirst, Pause: trialLease * 3 / 4}
		list = append(list, hazard{name: name, fault: fault, actor: others[name], shares: true})
	}
	return list
}

// theater is the stages, and what was played on them.
type theater struct {
	t    *testing.T
	ctx  context.Context
	free chan *stage
	long bool
	seed uint64
	slow *slowness

	mu                    sync.Mutex
	trips                 map[*scenario]map[string]int // how many there are of each label
	commits               map[string]bool              // labels of round trips that may commit
	boundaries            map[string]bool              // that were reached
	total                 int                          // boundaries that were seen in rehearsals
	tried, missed, failed int
}

// TestEveryPromiseIsKeptWhateverHappensAtAnyStatementOfARunner tries what may go wrong at the statements of a runner:
// with PRESCIENT_TEST_LONG=1 everything at each of them, else a part, chosen at random. A case is
// repeated by its name:
//
//	PRESCIENT_TEST_LONG=1 go test -run 'EveryPromise/^checks_in_transactions$/^lost_reply$/^claim_rows_2$' ./slots
func TestEveryPromiseIsKeptWhateverHappensAtAnyStatementOfARunner(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries 240 faults")
	}
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	th := &theater{
		t: t, ctx: t.Context(), free: make(chan *stage, stages), long: os.Getenv(longVariable) != "",
		seed: usualSeed, trips: map[*scenario]map[string]int{}, commits: map[string]bool{}, boundaries: map[string]bool{},
	}
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if th.seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, th.seed)
	for range stages {
		th.free <- newStage(t)
	}
	th.slow = watchSlowness(t)
	all := scenarios()
	th.perform(th.rehearsals(all))
	th.perform(th.choose(all))
	th.bury()
	summary := fmt.Sprintf("statement boundaries: %d scenarios with %d boundaries, of which %d were met by a fault; %d faults tried, %d of them not reached, %d failed (%s=%d)",
		len(all), th.total, len(th.boundaries), th.tried, th.missed, th.failed, seedVariable, th.seed)
	t.Log(summary)
	fmt.Fprintln(os.Stderr, summary)
}

// performance is one case.
type performance struct {
	scenario *scenario
	hazard   hazard
	at       boundary
}

func (p performance) String() string {
	return fmt.Sprintf("%s/%s/%s", p.scenario.name, p.hazard.name, p.at)
}

// rehearsals plays each scenario without a fault, to count its round trips. Runs are concurrent, so they vary a little,
// and a count of every round trip needs several.
func (th *theater) rehearsals(all []*scenario) []performance {
	times := 1
	if th.long {
		times = 3
	}
	var list []performance
	for _, sc := range all {
		for range times {
			list = append(list, performance{sc, hazard{name: "nothing"}, boundary{label: "rehearsal"}})
		}
	}
	return list
}

// choose lists the cases that are tried.
func (th *theater) choose(all []*scenario) []performance {
	random := rand.New(rand.NewPCG(th.seed, 0))
	var list []performance
	for _, sc := range all {
		var boundaries []boundary
		for _, label := range slices.Sorted(maps.Keys(th.trips[sc])) {
			for n := range th.trips[sc][label] {
				boundaries = append(boundaries, boundary{label, n + 1})
			}
		}
		th.total += len(boundaries)
		for _, h := range hazards(sc) {
			random.Shuffle(len(boundaries), func(i, j int) { boundaries[i], boundaries[j] = boundaries[j], boundaries[i] })
			for _, at := range boundaries {
				if h.fault.Kind == pgtest.FailedCommit && !th.commits[at.label] {
					continue
				}
				if list = append(list, performance{sc, h, at}); !th.long {
					break
				}
			}
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if !th.long {
		list = list[:min(some, len(list))]
	}
	return list
}

// perform plays a list, as many at once as there are stages.
func (th *theater) perform(list []performance) {
	next := make(chan performance)
	var players sync.WaitGroup
	for range stages {
		players.Go(func() {
			for p := range next {
				if p.at.n == 0 {
					th.play(th.t, p) // whichever cases -run chooses
					continue
				}
				th.t.Run(p.String(), func(t *testing.T) { th.play(t, p) })
			}
		})
	}
	for _, p := range list {
		next <- p
	}
	close(next)
	players.Wait()
}

// play is one trial.
func (th *theater) play(t *testing.T, p performance) {
	began := time.Now()
	stage := <-th.free
	defer func() { th.free <- stage }()
	c := newTrial(t, stage, p.scenario, p.hazard)
	c.wasSlow = func() bool { return th.slow.since(began) }
	faults := c.play(p.at)
	k, text := faults.Hit()
	c.hit = text
	c.judge()

	t.Logf("%s: %s after %s", p, faults, time.Since(began).Round(time.Millisecond))
	th.mu.Lock()
	defer th.mu.Unlock()
	switch {
	case p.at.n == 0:
		_ = faults.DB.Close()
		th.count(p.scenario, faults.Trips())
	case k == 0:
		th.tried++
		th.missed++
	default:
		th.tried++
		th.boundaries[fmt.Sprint(p.scenario.name, p.at)] = true
	}
	if complaint := c.complaints(); len(complaint) > 0 {
		th.failed++
		t.Errorf("%s: %s\n  %s\nround trips:\n%s", p, faults, strings.Join(complaint, "\n  "), around(faults.Trips(), k))
	}
}

// count takes the round trips of a rehearsal into account. What is asked over and over is counted twice.
func (th *theater) count(sc *scenario, trips []string) {
	n := map[string]int{}
	for i, text := range trips {
		label := labelOf(text)
		th.commits[label] = th.commits[label] || strings.HasSuffix(text, "commit")
		if i < 2 || label != labelOf(trips[i-1]) || label != labelOf(trips[i-2]) {
			n[label]++
		}
	}
	if th.trips[sc] == nil {
		th.trips[sc] = map[string]int{}
	}
	for label := range n {
		th.trips[sc][label] = max(th.trips[sc][label], n[label])
	}
}

// around lists the round trips before and after the k-th.
func around(trips []string, k int) string {
	var b strings.Builder
	for i, text := range trips {
		if k == 0 || i+1 >= k-5 && i+1 <= k+8 {
			fmt.Fprintf(&b, "%4d %.160s\n", i+1, text)
		}
	}
	return b.String()
}

// bury waits for the runners of dead processes, which must return, too.
func (th *theater) bury() {
	ctx, cancel := context.WithTimeout(th.ctx, returnsWithin)
	defer cancel()
	for range stages {
		if err := (<-th.free).bury(ctx); err != nil {
			th.t.Error(err)
		}
	}
}
