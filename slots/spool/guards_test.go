package spool_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/slots/spool"
)

// next is a script that asks for a time.
func next(at time.Time) string { return "echo next: " + at.Format(time.RFC3339) }

func TestEveryWayACheckCanEndHasItsOutcome(t *testing.T) {
	t.Parallel()
	done := func() []string { return []string{"done job", "done/12:15/job"} }
	failed := func(problem string) []string { return []string{"failed job: " + problem, "failed/12:15/job"} }
	moved := func(to, counts string, problem ...string) []string {
		name := "job," + counts
		return []string{strings.Join(append([]string{"moved " + name}, problem...), ": "), to + "/" + name}
	}
	for _, test := range []struct {
		name   string
		script string
		counts string        // in the name of the file
		late   time.Duration // how long after its slot the run starts
		want   []string      // what Run tells, and where the file is then
	}{
		{name: "exit 0: done", script: "exit 0", want: done()},
		{name: "exit 0 after others: done", script: "exit 0", counts: ",checks=3,errors=2", want: done()},
		{name: "exit 75: the next slot", script: "exit 75", want: moved("12:30", "checks=1,errors=0")},
		{name: "a time: rounded up to its slot", script: next(slot(2).Add(time.Second)), want: moved("12:45", "checks=1,errors=0")},
		{name: "a time on the grid", script: next(slot(4)), want: moved("13:00", "checks=1,errors=0")},
		{name: "a time of another zone", script: "echo 'next: 2030-03-01T15:00:00+02:00'", want: moved("13:00", "checks=1,errors=0")},
		{name: "a time and exit 75: the time", script: next(slot(4)) + "; exit 75", want: moved("13:00", "checks=1,errors=0")},
		{name: "of two times the last", script: next(slot(9)) + ";" + next(slot(4)), want: moved("13:00", "checks=1,errors=0")},
		{name: "a time without an end of line", script: "printf 'next:%s' " + slot(4).Format(time.RFC3339), want: moved("13:00", "checks=1,errors=0")},
		{name: "a time after much output", script: "head -c 2000000 /dev/zero; echo;" + next(slot(4)), want: moved("13:00", "checks=1,errors=0")},
		{name: "a time before much output", script: next(slot(4)) + "; yes | head -c 70000", want: moved("13:00", "checks=1,errors=0")},
		{name: "a time before much output, and exit 75", script: next(slot(4)) + "; yes | head -c 70000; exit 75", want: moved("13:00", "checks=1,errors=0")},
		{name: "a time before a long line", script: next(slot(4)) + "; head -c 200000 /dev/zero | tr '\\0' x", want: moved("13:00", "checks=1,errors=0")},
		{name: "a time within a long line is none", script: "head -c 65536 /dev/zero | tr '\\0' x; " + next(slot(4)), want: done()},
		{name: "a time within a line is none", script: "echo the " + strings.TrimPrefix(next(slot(4)), "echo "), want: done()},
		{name: "late, a time that is past: the next slot from now", script: next(slot(1).Add(time.Minute)), late: 14 * time.Minute, want: moved("12:30", "checks=1,errors=0")},
		{name: "this slot: past", script: next(slot(1)), want: failed("past")},
		{name: "an earlier time: past", script: next(slot(-100)), want: failed("past")},
		{name: "beyond the horizon", script: next(noon.AddDate(6, 0, 0)), want: failed("horizon")},
		{name: "the last check but one", script: "exit 75", counts: ",checks=98,errors=0", want: moved("12:30", "checks=99,errors=0")},
		{name: "one check too many", script: "exit 75", counts: ",checks=99,errors=0", want: failed("max_checks")},
		{
			name: "a time that is none: an error", script: "echo next: tomorrow",
			want: moved("12:30", "checks=0,errors=1", `line "next: tomorrow": want next: and an instant such as 2006-01-02T15:04:05Z`),
		},
		{
			name: "another exit status: an error with the last line", script: "echo looked; echo 'no such order' >&2; echo; exit 3",
			want: moved("12:30", "checks=0,errors=1", "exit status 3", "no such order"),
		},
		{name: "an error beside a time is an error", script: next(slot(9)) + "; exit 1", want: moved("12:30", "checks=0,errors=1", "exit status 1", strings.TrimPrefix(next(slot(9)), "echo "))},
		{name: "a signal: an error", script: "kill -KILL $$", want: moved("12:30", "checks=0,errors=1", "signal: killed")},
		{name: "an error after others: a longer pause", script: "exit 1", counts: ",checks=2,errors=3", want: moved("14:15", "checks=2,errors=4", "exit status 1")},
		{name: "an error too many: failed", script: "exit 1", counts: ",checks=0,errors=5", want: failed("exit status 1")},
		{name: "a check without an error ends the errors in a row", script: "exit 75", counts: ",checks=2,errors=3", want: moved("12:30", "checks=3,errors=0")},
		{name: "an error text that JSON cannot hold", script: `printf 'a\000b\377' >&2; exit 1`, want: moved("12:30", "checks=0,errors=1", "exit status 1", "ab\uFFFD")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.put(slot(1), "job"+test.counts, test.script)
			got := append(w.run(slot(1).Add(test.late)), w.tree()...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATimeoutEndsACheckAndWhatItHasStarted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"an error", "echo waiting; echo > $T/ready; exec sleep 60", "moved job,checks=0,errors=1: timeout after %s: signal: terminated: waiting"},
		{"ignored: killed", "trap '' TERM; echo > $T/ready; sleep 60 & wait; sleep 60", "moved job,checks=0,errors=1: timeout after %s: signal: killed"},
		{"exit 0: not finished", "trap 'exit 0' TERM; echo waiting; echo > $T/ready; sleep 60 & wait", "moved job,checks=0,errors=1: timeout after %s: exit status 0: waiting"},
		{"exit 75: another check", "trap 'exit 75' TERM; echo > $T/ready; sleep 60 & wait", "moved job,checks=1,errors=0"},
		{"a time: another check", next(slot(4)) + "; trap 'exit 0' TERM; echo > $T/ready; sleep 60 & wait", "moved job,checks=1,errors=0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var got []string
			timeout := time.Second / 2
			for ready := false; !ready; ready = w.read(w.trace+"/ready") != "" { // a slow machine has not set the trap yet
				if timeout *= 2; timeout > time.Minute {
					t.Fatalf("it is never ready: %v", got)
				}
				w = setup(t)
				w.put(slot(1), "job", `echo $$ > $T/group; `+test.script)
				got = w.run(slot(1), func(c *spool.Config) { c.Timeout = timeout })
			}
			if diff := cmp.Diff([]string{strings.ReplaceAll(test.want, "%s", timeout.String())}, got); diff != "" {
				t.Error(diff)
			}
			group := strings.TrimSpace(w.read(w.trace + "/group"))
			w.eventually("its group to end", func() bool {
				out, _ := exec.Command("ps", "-e", "-o", "pgid=,stat=").Output()
				return !regexp.MustCompile(`(?m)^ *` + group + ` [^Z]`).Match(out) // a zombie has ended
			})
		})
	}
}

func TestWhatCannotBeStartedIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"no interpreter named": "echo hello", "no such interpreter": "#!/no/such/shell\n", "an empty file": ""} {
		w := setup(t)
		w.write(w.path(slot(1), "job"), content, 0o755)
		got := w.run(slot(1))
		if len(got) != 1 || !strings.HasPrefix(got[0], "moved job,checks=0,errors=1: ") || !strings.Contains(got[0], "the first line of a script names its interpreter") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// While a process writes a file, the kernel starts no half of it.
func TestAFileThatIsBeingWrittenIsLeftInItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	writer, err := os.OpenFile(w.path(slot(1), "job"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"left job: a process is still writing it"}, w.run(slot(1))); diff != "" {
		t.Error(diff)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	// A child that another test is starting can have it open for a moment.
	w.eventually("the job to run", func() bool { return cmp.Equal([]string{"done job"}, w.run(slot(1))) })
}

func TestACheckIsToldWhereItStands(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job,checks=2,errors=1", `env | grep ^PRESCIENT_ | grep -v TEST | sort; cat`)
	w.Set(slot(3))
	w.catchUp()
	want := fmt.Sprintf(`PRESCIENT_CHECK_COUNT=2
PRESCIENT_ERROR_COUNT=1
PRESCIENT_NAME=job
PRESCIENT_SLOT=2030-03-01T12:15:00Z
PRESCIENT_SPOOL_DIR=%s
prescient: done
`, w.dir)
	if diff := cmp.Diff(want, w.output(slot(1), "job")); diff != "" {
		t.Error(diff)
	}
}

// A page or a help text says how many errors in a row fail a file.
var saysErrors = regexp.MustCompile(`(\d+)\s+errors\s+in\s+a\s+row`)

func TestAFileFailsAfterAsManyErrorsInARowAsTheDocumentationSays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(noon, "job", "exit 1")
	w.Set(noon)
	errs := 0
	for ; len(w.list()) > 0; errs++ {
		if files := w.catchUp(); len(files) > 1 || errs > 100 {
			t.Fatal(files)
		}
		w.Set(w.Now().Add(24 * time.Hour))
	}
	if diff := cmp.Diff([]string{"failed/13:00/job"}, mapped(w.tree(), `/\d+/`, "/13:00/")); diff != "" {
		t.Error(diff)
	}
	page, err := os.ReadFile("../../docs/spool.md")
	if err != nil {
		t.Fatal(err)
	}
	said := saysErrors.FindAllStringSubmatch(string(page), -1)
	if len(said) == 0 {
		t.Error("docs/spool.md does not say it")
	}
	for _, m := range said {
		if m[1] != fmt.Sprint(errs) {
			t.Errorf("docs/spool.md says %q, and it is %d", m[0], errs)
		}
	}
	if spool.Retry+1 != errs {
		t.Errorf("the help says %d errors, and it is %d", spool.Retry+1, errs)
	}
}

func mapped(list []string, pattern, by string) []string {
	for i := range list {
		list[i] = regexp.MustCompile(pattern).ReplaceAllString(list[i], by)
	}
	return list
}

func TestANameThatIsTakenKeepsBothFiles(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 { // ends again in its slot
		w.put(slot(1), "job", "exit 0")
		w.run(slot(1))
	}
	w.put(slot(1), "other", "exit 75")
	w.put(slot(2), "other,checks=1,errors=0", "exit 75")
	w.run(slot(1))
	want := []string{"12:30/other,checks=1,errors=0", "12:30/other.2,checks=1,errors=0", "done/12:15/job", "done/12:15/job.2", "done/12:15/job.3"}
	if diff := cmp.Diff(want, w.tree()); diff != "" {
		t.Error(diff)
	}
}

func TestTheOutputSaysWhatBecameOfEachCheckInItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `echo out; echo err >&2; exit $((3 + $(ls $T | wc -l)))`)
	w.run(slot(1))
	w.put(slot(1), "job", `echo again`)
	w.run(slot(1))
	want := "out\nerr\nprescient: moved exit status 3: err\nagain\nprescient: done\n"
	if diff := cmp.Diff(want, w.output(slot(1), "job")); diff != "" {
		t.Error(diff)
	}
}

func TestAnOutcomeThatCannotBeRecordedStopsTheRun(t *testing.T) {
	t.Parallel()
	for in, ran := range map[string]int{"done": 1, "output": 0} {
		w := setup(t)
		for i := range 5 {
			w.put(slot(1), fmt.Sprintf("a%d", i), `echo $PRESCIENT_NAME >> $T/started`)
		}
		w.write(w.dir+"/"+in, "in the way", 0o644)
		w.Set(slot(1))
		files, err := w.open().Run(t.Context(), false)
		if err == nil || !strings.Contains(err.Error(), "run "+w.path(slot(1), "a0")) {
			t.Errorf("%s: error %v", in, err)
		}
		if len(files) != 1 || files[0].State != spool.StateLeft || len(w.traces("started")) != ran {
			t.Errorf("%s: %v, started %v", in, told(files), w.traces("started"))
		}
		if err := os.Remove(w.dir + "/" + in); err != nil {
			t.Fatal(err)
		}
		if files := w.run(slot(1)); len(files) != 5 {
			t.Errorf("%s: the next run: %v", in, files)
		}
	}
}
