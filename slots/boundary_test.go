package slots_test

// These files are one test: whatever goes wrong at any statement of a runner, every promise is kept. To read them, begin
// here.
//
// A scenario is the work of one process, A: rows to begin with, jobs, and the call of Run or CatchUp. A dry run of each
// scenario counts the round trips of A to its server. Each of them is a boundary, named by its statement and how often it
// came before: "claim_rows 2". A hazard is what goes wrong at a boundary: A dies, its reply is lost, it stands still while
// another runner takes its work over, or another session goes first (an actor, whose deed must hold in the end). A test
// case is a scenario, a hazard and a boundary; the sweep goes through some of them, or all. A trial is a test case that is
// played: A works and the hazard happens, then a process H heals by another run and a catch-up, and at last every promise
// is judged. A row may have one of the verdicts that its scenario allows.
//
//	boundary_test.go           hazards, and the sweep: dry runs, the choice of test cases, trials side by side
//	boundary_scenario_test.go  the scenarios, and what happens before A and beside it
//	boundary_trial_test.go     one trial from A to H, and its processes
//	boundary_actor_test.go     what other sessions do: cancel, enqueue again, pause, lock
//	boundary_seen_test.go      the jobs of the trials, and what their checks saw
//	boundary_verdict_test.go   the verdicts that a row may have
//	boundary_promise_test.go   the promises, judged one by one from what is in the tables
//	boundary_rule_test.go      the scenario of a rule with its table
//	boundary_testbed_test.go   databases for trials, with triggers that write down each claim

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
	// testbeds is how many trials take place at once: most of the time they wait for a lease to end.
	testbeds = 8
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

// sweep is all test cases of one test, and the testbeds on which they are played.
type sweep struct {
	t    *testing.T
	ctx  context.Context
	free chan *testbed
	long bool
	seed uint64
	slow *slowness

	mu                    sync.Mutex
	trips                 map[*scenario]map[string]int // how many there are of each label
	commits               map[string]bool              // labels of round trips that may commit
	boundaries            map[string]bool              // that were reached
	total                 int                          // boundaries that were seen in dryRuns
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
	sw := &sweep{
		t: t, ctx: t.Context(), free: make(chan *testbed, testbeds), long: os.Getenv(longVariable) != "",
		seed: usualSeed, trips: map[*scenario]map[string]int{}, commits: map[string]bool{}, boundaries: map[string]bool{},
	}
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if sw.seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, sw.seed)
	for range testbeds {
		sw.free <- newTestbed(t)
	}
	sw.slow = watchSlowness(t)
	all := scenarios()
	sw.perform(sw.dryRuns(all))
	sw.perform(sw.choose(all))
	sw.bury()
	summary := fmt.Sprintf("statement boundaries: %d scenarios with %d boundaries, of which %d were met by a fault; %d faults tried, %d of them not reached, %d failed (%s=%d)",
		len(all), sw.total, len(sw.boundaries), sw.tried, sw.missed, sw.failed, seedVariable, sw.seed)
	t.Log(summary)
	fmt.Fprintln(os.Stderr, summary)
}

// testCase says what goes wrong where.
type testCase struct {
	scenario *scenario
	hazard   hazard
	at       boundary
}

func (p testCase) String() string {
	return fmt.Sprintf("%s/%s/%s", p.scenario.name, p.hazard.name, p.at)
}

// dryRuns lists each scenario without a fault, to count its round trips. Runs are concurrent, so they vary a little,
// and a count of every round trip needs several.
func (sw *sweep) dryRuns(all []*scenario) []testCase {
	times := 1
	if sw.long {
		times = 3
	}
	var list []testCase
	for _, sc := range all {
		for range times {
			list = append(list, testCase{sc, hazard{name: "nothing"}, boundary{label: "dry run"}})
		}
	}
	return list
}

// choose lists the cases that are tried.
func (sw *sweep) choose(all []*scenario) []testCase {
	random := rand.New(rand.NewPCG(sw.seed, 0))
	var list []testCase
	for _, sc := range all {
		var boundaries []boundary
		for _, label := range slices.Sorted(maps.Keys(sw.trips[sc])) {
			for n := range sw.trips[sc][label] {
				boundaries = append(boundaries, boundary{label, n + 1})
			}
		}
		sw.total += len(boundaries)
		for _, h := range hazards(sc) {
			random.Shuffle(len(boundaries), func(i, j int) { boundaries[i], boundaries[j] = boundaries[j], boundaries[i] })
			for _, at := range boundaries {
				if h.fault.Kind == pgtest.FailedCommit && !sw.commits[at.label] {
					continue
				}
				if list = append(list, testCase{sc, h, at}); !sw.long {
					break
				}
			}
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if !sw.long {
		list = list[:min(some, len(list))]
	}
	return list
}

// perform plays a list, as many at once as there are testbeds.
func (sw *sweep) perform(list []testCase) {
	next := make(chan testCase)
	var workers sync.WaitGroup
	for range testbeds {
		workers.Go(func() {
			for p := range next {
				if p.at.n == 0 {
					sw.play(sw.t, p) // whichever cases -run chooses
					continue
				}
				sw.t.Run(p.String(), func(t *testing.T) { sw.play(t, p) })
			}
		})
	}
	for _, p := range list {
		next <- p
	}
	close(next)
	workers.Wait()
}

// play is one trial.
func (sw *sweep) play(t *testing.T, p testCase) {
	began := time.Now()
	testbed := <-sw.free
	defer func() { sw.free <- testbed }()
	c := newTrial(t, testbed, p.scenario, p.hazard)
	c.wasSlow = func() bool { return sw.slow.since(began) }
	faults := c.play(p.at)
	k, text := faults.Hit()
	c.hit = text
	c.judge()

	t.Logf("%s: %s after %s", p, faults, time.Since(began).Round(time.Millisecond))
	sw.mu.Lock()
	defer sw.mu.Unlock()
	switch {
	case p.at.n == 0:
		_ = faults.DB.Close()
		sw.count(p.scenario, faults.Trips())
	case k == 0:
		sw.tried++
		sw.missed++
	default:
		sw.tried++
		sw.boundaries[fmt.Sprint(p.scenario.name, p.at)] = true
	}
	if complaint := c.complaints(); len(complaint) > 0 {
		sw.failed++
		t.Errorf("%s: %s\n  %s\nround trips:\n%s", p, faults, strings.Join(complaint, "\n  "), around(faults.Trips(), k))
	}
}

// count takes the round trips of a dry run into account. What is asked over and over is counted twice.
func (sw *sweep) count(sc *scenario, trips []string) {
	n := map[string]int{}
	for i, text := range trips {
		label := labelOf(text)
		sw.commits[label] = sw.commits[label] || strings.HasSuffix(text, "commit")
		if i < 2 || label != labelOf(trips[i-1]) || label != labelOf(trips[i-2]) {
			n[label]++
		}
	}
	if sw.trips[sc] == nil {
		sw.trips[sc] = map[string]int{}
	}
	for label := range n {
		sw.trips[sc][label] = max(sw.trips[sc][label], n[label])
	}
}

// around lists the round trips before and after the k-sw.
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
func (sw *sweep) bury() {
	ctx, cancel := context.WithTimeout(sw.ctx, returnsWithin)
	defer cancel()
	for range testbeds {
		if err := (<-sw.free).bury(ctx); err != nil {
			sw.t.Error(err)
		}
	}
}
