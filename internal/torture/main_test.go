package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAMinuteOfFaultsBreaksNothing(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "torture")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The machine may be busy with other tests, so rows may take their time.
	out, err := exec.CommandContext(t.Context(), binary, "-seed", "1", "-for", "30s", "-recovery", "1m").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"kill", "kill at a statement", "lose the reply to a commit", "cut connections", refusesEvents, hangs, dies, "checks started"} {
		if !strings.Contains(string(out), "| "+kind+" |") {
			t.Errorf("there was no %s", kind)
		}
	}
}

// found collects what a check calls broken.
func found(check func(broken func(string, ...any))) (list []string) {
	check(func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
	return list
}

func TestTheChecksFindWhatIsBroken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	enqueue := ask{what: "enqueue", at: at(1000), began: at(0), ended: at(10), known: done, action: "inserted"}
	cancel := ask{what: "cancel", at: at(2000), began: at(11), ended: at(20), known: done, action: "true"}
	row := ended{
		ID: 1, JobExec: txJob, EntityName: entity, EntityKey: "k", CheckCount: 1, Outcome: "done", Slot: at(1000), Runner: "host:7",
	}
	stories := func(asks []ask, rows []ended, starts ...started) []string {
		m := &mutator{stories: []*story{{job: txJob, key: "k", asks: asks}}}
		return found(func(broken func(string, ...any)) {
			(&torture{counts: map[string]int{}}).checkStories(m, map[string][]ended{txJob + " k": rows}, starts, broken)
		})
	}
	limits := func(starts ...started) []string {
		return found(func(broken func(string, ...any)) { new(torture).checkLimits(starts, broken) })
	}
	start := func(job string, from, to int) started {
		return started{id: 1, job: job, key: "k", slot: at(1000), at: at(from), end: at(to)}
	}
	paced := make([]started, 0, perSecond+1)
	for i := range perSecond + 1 {
		paced = append(paced, start(pacedJob, 1000+i*40, 1001+i*40))
	}
	starts := func(history []ended, list ...started) []string {
		return found(func(broken func(string, ...any)) { checkStarts(list, history, nil, broken) })
	}
	ledger := func(history []ended, slots ...counted) []string {
		return found(func(broken func(string, ...any)) { checkCounts(slots, history, broken) })
	}
	effects := func(list ...effect) []string {
		return found(func(broken func(string, ...any)) { compareEffects(list, []ended{row}, broken) })
	}
	rule := func(o order, events ...fired) []string {
		return found(func(broken func(string, ...any)) { checkSteps([]*order{&o}, events, nil, broken) })
	}
	plan := func(ms ...int) []string {
		var events []published
		for id := range schedules {
			for _, at := range ms {
				events = append(events, published{ID: id, Anchor: now, At: now.Add(time.Duration(at) * schedules[id])})
			}
		}
		return found(func(broken func(string, ...any)) {
			checkInstants(events, now.Add(3*schedules["often"]), 2*time.Second, false, broken)
		})
	}
	outbox := []written{{"1", "a", "one"}, {"2", "b", "two"}, {"3", "a", "three"}}
	arrived := func(ids ...string) []string {
		got := make([]accepted, len(ids))
		for i, id := range ids {
			got[i] = accepted{id: id}
		}
		return found(func(broken func(string, ...any)) { checkArrivals(webhook, outbox, got, broken) })
	}
	told := func(texts ...string) []string {
		got := make([]accepted, len(texts))
		for i, text := range texts {
			got[i] = accepted{text: text}
		}
		return found(func(broken func(string, ...any)) { checkMessages(outbox, got, broken) })
	}
	recovered := func(left ...dueRow) []string {
		return found(func(broken func(string, ...any)) { checkRecovery(left, 3, usualRecovery, broken) })
	}
	cancelled := row
	cancelled.Outcome = "cancelled"
	again := start(txJob, 1002, 1003)
	again.checks = 2
	by := func(pid int) started {
		s := start(txJob, 1000, 1001)
		s.pid = pid
		return s
	}
	later := by(7) // its line comes before that of a process that was stopped between its start and its line
	later.at = at(1001)
	lost := enqueue
	lost.known = unknown
	replaced := ask{what: "replace", at: at(3000), began: at(1500), ended: at(1501), known: done, action: "recorded"}
	begun := change{at: at(0), known: done, ended: at(1)}
	moved := change{at: at(1000), known: done, ended: at(1001)}
	never := change{at: at(0), known: none, ended: at(1)}
	event := func(name string, since, written int) fired {
		return fired{Subject: "orders/1", Type: name, Since: at(since), At: at(written)}
	}
	both := []fired{event("first", 0, 2000), event("second", 0, 5000)}
	for name, c := range map[string]struct {
		found []string
		want  string // empty: nothing
	}{
		"a row that is done":                   {stories([]ask{enqueue}, []ended{row}, start(txJob, 1000, 1001)), ""},
		"a row that is lost":                   {stories([]ask{enqueue}, nil, start(txJob, 1000, 1001)), "has 0 rows"},
		"a row twice":                          {stories([]ask{enqueue}, []ended{row, row}, start(txJob, 1000, 1001)), "has 2 rows"},
		"a row whose commit is unknown":        {stories([]ask{lost}, nil), ""},
		"a start before its instant":           {stories([]ask{enqueue}, []ended{row}, start(txJob, 900, 901)), "before the first instant"},
		"a start after its cancel":             {stories([]ask{enqueue, cancel}, []ended{cancelled}, start(txJob, 1000, 1001)), "after its cancel"},
		"a cancel that was lost":               {stories([]ask{enqueue, cancel}, []ended{row}), "was cancelled 1 times"},
		"a request that no check follows":      {stories([]ask{enqueue, replaced}, []ended{row}, start(txJob, 1000, 1001)), "no check started"},
		"a request that a check follows":       {stories([]ask{enqueue, replaced}, []ended{row, row}, start(txJob, 1000, 1001), start(txJob, 3000, 3001)), ""},
		"three at once":                        {limits(start(limitedJob, 0, 10), start(limitedJob, 5, 15), start(limitedJob, 8, 9)), "3 checks"},
		"two at once, and one after":           {limits(start(limitedJob, 0, 10), start(limitedJob, 5, 15), start(limitedJob, 10, 12)), ""},
		"two at once, and an abandoned one":    {limits(start(limitedJob, 0, 2100), start(limitedJob, 1900, 2200), start(limitedJob, 2050, 2060)), ""},
		"one that is soon abandoned":           {limits(start(limitedJob, 0, 2100), start(limitedJob, 1900, 2200), start(limitedJob, 1950, 1960)), "3 checks"},
		"too many in a second":                 {limits(paced...), "began within"},
		"as many as may":                       {limits(paced[1:]...), ""},
		"a start of a row that never was":      {starts(nil, start(txJob, 1000, 1001)), "does not have it"},
		"a start before its slot, by a clock":  {starts([]ended{row}, start(txJob, 990, 1001)), "before its slot"},
		"a row in two places of history":       {starts([]ended{row, row}, start(txJob, 1000, 1001)), "in history twice"},
		"a check that did not start":           {starts([]ended{row}), "did not start"},
		"a check that its process recorded":    {starts([]ended{row}, by(8), by(7)), ""},
		"a check whose line is late":           {starts([]ended{row}, later, by(8)), ""},
		"a check under an old token":           {starts([]ended{row}, by(7), by(8)), "host:7 recorded it"},
		"a check after the last one":           {starts([]ended{row}, start(txJob, 1000, 1001), again), "check 3 of row 1"},
		"a ledger that agrees":                 {ledger([]ended{row}, counted{at(1000), 1}), ""},
		"a ledger that counts too much":        {ledger([]ended{row}, counted{at(1000), 2}), "counts 2 rows"},
		"a slot that the ledger does not have": {ledger([]ended{row}), "does not have it"},
		"an effect":                            {effects(effect{ID: 1, N: 1, Last: 7}), ""},
		"an effect twice":                      {effects(effect{ID: 1, N: 1, Last: 7, Twice: true}), "twice"},
		"an effect that was lost":              {effects(), "has 0 effects"},
		"an effect of another process":         {effects(effect{ID: 1, N: 1, Last: 8}), "process 8"},
		"an effect before its slot":            {effects(effect{ID: 1, N: 1, Last: 7, Early: true}), "before its slot"},
		"steps":                                {rule(order{id: 1, starts: []change{begun}}, both...), ""},
		"a step that did not fire":             {rule(order{id: 1, starts: []change{begun}}, both[1]), "first did not fire"},
		"a step twice":                         {rule(order{id: 1, starts: []change{begun}}, append(both, both[0])...), "2 times"},
		"a step too early":                     {rule(order{id: 1, starts: []change{begun}}, event("first", 0, 1999), both[1]), "too early"},
		"a step of an order that never was":    {rule(order{id: 1, starts: []change{never}}, both[0]), "rolled back"},
		"a step of an order that was paid":     {rule(order{id: 1, starts: []change{begun}, over: &moved}, both[0]), "was over"},
		"a step of a start that moved":         {rule(order{id: 1, starts: []change{begun, moved}}, both[0], event("first", 1000, 3000), event("second", 1000, 6000)), "was over"},
		"the steps of both starts":             {rule(order{id: 1, starts: []change{begun, {at(2500), done, at(2501)}}}, both[0], event("first", 2500, 4500), event("second", 2500, 7500)), ""},
		"a step of a start that never was":     {rule(order{id: 1, starts: []change{begun}}, append(both, event("first", 7, 2007))...), "there was not"},
		"instants":                             {plan(1, 2, 3), ""},
		"no instant yet":                       {plan(0), ""},
		"an instant twice":                     {plan(1, 2, 2, 3), "0s later"},
		"an instant that is left out":          {plan(1, 3), "later, want"},
		"instants that end too early":          {plan(), "before the end"},
		"events":                               {arrived("2", "1", "3"), ""},
		"events that come again":               {arrived("1", "3", "1", "2", "3"), ""},
		"an event that is lost":                {arrived("1", "3"), "never got event 2"},
		"events of a subject in another order": {arrived("3", "2", "1", "3"), "before event 1"},
		"an event that was rolled back":        {arrived("1", "2", "3", "4"), "does not have it"},
		"messages":                             {told("one", "two", "three"), ""},
		"messages that are told together":      {told("2 messages at once:\n\none\n\ntwo", "three"), ""},
		"a message that is lost":               {told("2 messages at once:\n\none\n\nthree"), "never got event 2"},
		"messages in another order":            {told("three", "one", "two"), "before event 1"},
		"a message of nothing":                 {told("one", "two", "three", "four"), "does not have it: four"},
		"a recovery":                           {recovered(), ""},
		"a row that no run takes over":         {recovered(dueRow{ID: 1}), "1 of 3 rows"},
	} {
		if got := strings.Join(c.found, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestAGoroutineThatIsLeftIsFound(t *testing.T) { //nolint:paralleltest // the other tests have goroutines
	dir := t.TempDir()
	path := filepath.Join(dir, "leaks")
	ended := make(chan struct{})
	defer close(ended)
	go func() { <-ended }()
	if err := new(startLedger).leaks(path); err != nil {
		t.Fatal(err)
	}
	run := &torture{dir: dir}
	if err := run.checkLeaks(); err != nil || len(run.found) != 1 {
		t.Errorf("found %q, %v", run.found, err)
	}
}

func TestTheLatestTimeOfAClockIsThatOfItsSteps(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &clock{steps: []clockStep{{now, 0}, {now.Add(10 * time.Second), time.Hour}, {now.Add(20 * time.Second), 0}}}
	for after, want := range map[time.Duration]time.Duration{
		5 * time.Second: 5 * time.Second, 15 * time.Second: time.Hour + 15*time.Second, 25 * time.Second: time.Hour + 20*time.Second,
	} {
		if got := c.latest(now.Add(after)).Sub(now); got != want {
			t.Errorf("after %v it is %v, want %v", after, got, want)
		}
	}
}

func TestALineOfAProcessThatWasKilledWithinItIsLeftOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "starts")
	ledger := "start 1 plain 1-1 0 10 11 7\nend 1 plain 1-1 0 1start 2 plain 1-2 0 10 12 8\nend 2 plain 1-2 0 10 13 8\n"
	if err := os.WriteFile(path, []byte(ledger), 0o600); err != nil {
		t.Fatal(err)
	}
	starts, err := readStarts(path)
	if err != nil || len(starts) != 2 || !starts[0].end.IsZero() || starts[1].end != time.Unix(0, 13) {
		t.Errorf("%+v, %v", starts, err)
	}
}
