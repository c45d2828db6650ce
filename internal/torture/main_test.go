package main

import (
	"fmt"
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
	out, err := exec.CommandContext(t.Context(), binary, "-seed", "1", "-for", "30s").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"kill", "kill at a statement", "lose the reply to a commit", "cut connections", "checks started"} {
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
	enqueue := ask{what: "enqueue", at: at(1000), ended: at(10), known: done, action: "inserted"}
	cancel := ask{what: "cancel", at: at(2000), ended: at(20), known: done, action: "true"}
	row := ended{ID: 1, JobExec: txJob, EntityKey: "k", Outcome: "done"}
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
	var paced []started
	for i := range perSecond + 1 {
		paced = append(paced, start(pacedJob, 1000+i*40, 1001+i*40))
	}
	starts := func(ids map[int64]ended, list ...started) []string {
		return found(func(broken func(string, ...any)) { new(torture).checkStarts(list, ids, broken) })
	}
	cancelled := row
	cancelled.Outcome = "cancelled"
	lost := enqueue
	lost.known = unknown
	for name, c := range map[string]struct {
		found []string
		want  string // empty: nothing
	}{
		"a row that is done":                  {stories([]ask{enqueue}, []ended{row}, start(txJob, 1000, 1001)), ""},
		"a row that is lost":                  {stories([]ask{enqueue}, nil), "has 0 rows"},
		"a row twice":                         {stories([]ask{enqueue}, []ended{row, row}), "has 2 rows"},
		"a row whose commit is unknown":       {stories([]ask{lost}, nil), ""},
		"a start before its instant":          {stories([]ask{enqueue}, []ended{row}, start(txJob, 900, 901)), "before the first instant"},
		"a start after its cancel":            {stories([]ask{enqueue, cancel}, []ended{cancelled}, start(txJob, 1000, 1001)), "after its cancel"},
		"a cancel that was lost":              {stories([]ask{enqueue, cancel}, []ended{row}), "was cancelled 1 times"},
		"three at once":                       {limits(start(limitedJob, 0, 10), start(limitedJob, 5, 15), start(limitedJob, 8, 9)), "3 checks"},
		"two at once, and one after":          {limits(start(limitedJob, 0, 10), start(limitedJob, 5, 15), start(limitedJob, 10, 12)), ""},
		"too many in a second":                {limits(paced...), "began within"},
		"as many as may":                      {limits(paced[1:]...), ""},
		"a start of a row that never was":     {starts(nil, start(txJob, 1000, 1001)), "does not have it"},
		"a start before its slot, by a clock": {starts(map[int64]ended{1: row}, start(txJob, 990, 1001)), "before its slot"},
	} {
		if got := strings.Join(c.found, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}
