package spool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/spool"
)

// fate is how an executable ended, or where it waits.
type fate struct {
	Outcome    jobs.Outcome // empty: it waits
	Slot       time.Time
	CheckCount int
	ErrorCount int
	LastError  string
}

// fate returns what became of the only executable.
func (w *world) fate() fate {
	w.t.Helper()
	history := w.history()
	waiting, err := w.open().List()
	if err != nil {
		w.t.Fatal(err)
	}
	if len(history)+len(waiting) != 1 {
		w.t.Fatalf("%d ended and %d wait, want one in exactly one place", len(history), len(waiting))
	}
	if len(history) == 1 {
		e := history[0]
		return fate{e.Outcome, e.Slot, e.CheckCount, e.ErrorCount, e.LastError}
	}
	f := waiting[0]
	return fate{"", f.Slot, f.CheckCount, f.ErrorCount, f.LastError}
}

// next is a script that asks for a time.
func next(at time.Time) string { return "echo next: " + at.Format(time.RFC3339) }

func TestEveryWayACheckCanEndHasItsOutcome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		script  string
		sidecar string
		late    time.Duration // how long after its slot the run starts
		want    fate
	}{
		{name: "exit 0: done", script: "exit 0", want: fate{jobs.Done, slot(1), 1, 0, ""}},
		{name: "exit 75: the next slot", script: "exit 75", want: fate{"", slot(2), 1, 0, ""}},
		{name: "exit 75, late: the next slot from now", script: "exit 75", late: time.Hour, want: fate{"", slot(6), 1, 0, ""}},
		{name: "a time: rounded up to its slot", script: next(slot(2).Add(time.Second)), want: fate{"", slot(3), 1, 0, ""}},
		{name: "a time on the grid", script: next(slot(4)), want: fate{"", slot(4), 1, 0, ""}},
		{name: "a time of another zone", script: "echo 'next: 2030-03-01T15:00:00+02:00'", want: fate{"", slot(4), 1, 0, ""}},
		{name: "a time and exit 75: the time", script: next(slot(4)) + "; exit 75", want: fate{"", slot(4), 1, 0, ""}},
		{name: "of two times the last", script: next(slot(9)) + ";" + next(slot(4)), want: fate{"", slot(4), 1, 0, ""}},
		{name: "a time without an end of line", script: "printf 'next:%s' " + slot(4).Format(time.RFC3339), want: fate{"", slot(4), 1, 0, ""}},
		{name: "a time after much output", script: "head -c 2000000 /dev/zero; echo;" + next(slot(4)), want: fate{"", slot(4), 1, 0, ""}},
		{name: "a time on stderr is none", script: next(slot(4)) + " >&2", want: fate{jobs.Done, slot(1), 1, 0, ""}},
		{name: "a time within a line is none", script: "echo the " + strings.TrimPrefix(next(slot(4)), "echo "), want: fate{jobs.Done, slot(1), 1, 0, ""}},
		{
			name: "a time that is past, because the run is late: the next slot from now", script: next(slot(2)), late: time.Hour,
			want: fate{"", slot(6), 1, 0, ""},
		},
		{name: "this slot: past", script: next(slot(1)), want: fate{jobs.InThePast, slot(1), 1, 0, ""}},
		{name: "an earlier time: past", script: next(slot(-100)), want: fate{jobs.InThePast, slot(1), 1, 0, ""}},
		{name: "beyond the horizon", script: next(slot(100)), sidecar: `{"horizon": "1h"}`, want: fate{jobs.BeyondHorizon, slot(1), 1, 0, ""}},
		{
			name: "beyond the years that the name of a slot can say", script: next(noon.AddDate(100, 0, 0)), sidecar: `{"horizon": "2000000h"}`,
			want: fate{jobs.BeyondHorizon, slot(1), 1, 0, ""},
		},
		{name: "one check too many", script: "exit 75", sidecar: `{"max_checks": 3, "check_count": 2}`, want: fate{jobs.TooManyChecks, slot(1), 3, 0, ""}},
		{
			name: "a time that is none: an error", script: "echo next: tomorrow",
			want: fate{"", slot(2), 0, 1, `line "next: tomorrow" on stdout: want next: and an instant such as 2006-01-02T15:04:05Z`},
		},
		{
			name: "another exit status: an error with the last line of stderr", script: "echo 'no such order' >&2; echo >&2; echo looked; exit 3",
			want: fate{"", slot(2), 0, 1, "exit status 3: no such order"},
		},
		{name: "an error beside a time is an error, with the last line of stdout where stderr has none", script: next(slot(9)) + "; exit 1", want: fate{"", slot(2), 0, 1, "exit status 1: " + strings.TrimPrefix(next(slot(9)), "echo ")}},
		{name: "a signal: an error", script: "kill -KILL $$", want: fate{"", slot(2), 0, 1, "signal: killed"}},
		{
			name: "an error after others: a longer pause", script: "exit 1", sidecar: `{"error_count": 3, "last_error": "x"}`,
			want: fate{"", slot(9), 0, 4, "exit status 1"},
		},
		{
			name: "the pause is 64 slots at the most", script: "exit 1", sidecar: `{"error_count": 50, "retry": 100}`,
			want: fate{"", slot(65), 0, 51, "exit status 1"},
		},
		{name: "an error too many: failed", script: "exit 1", sidecar: `{"error_count": 5}`, want: fate{jobs.Failed, slot(1), 0, 6, "exit status 1"}},
		{name: "an error that is not tried again: failed", script: "exit 1", sidecar: `{"retry": 0}`, want: fate{jobs.Failed, slot(1), 0, 1, "exit status 1"}},
		{
			name: "a check without an error ends the errors in a row", script: "exit 75", sidecar: `{"error_count": 2, "last_error": "x"}`,
			want: fate{"", slot(2), 1, 0, "x"},
		},
		{
			name: "an error text that JSON cannot hold", script: `printf 'a\000b\377' >&2; exit 1`,
			want: fate{"", slot(2), 0, 1, "exit status 1: ab\uFFFD"},
		},
		{
			name: "a timeout: an error", script: "echo waiting; exec sleep 60", sidecar: `{"timeout": "50ms"}`,
			want: fate{"", slot(2), 0, 1, "timeout after 50ms: signal: terminated: waiting"},
		},
		{
			name: "a timeout that is ignored: killed, with all it has started", script: "trap '' TERM; sleep 60 & wait; sleep 60", sidecar: `{"timeout": "50ms"}`,
			want: fate{"", slot(2), 0, 1, "timeout after 50ms: signal: killed"},
		},
		{
			name: "a timeout that is heeded in time: what the check says", script: "trap 'exit 0' TERM; sleep 60 & wait", sidecar: `{"timeout": "200ms"}`,
			want: fate{jobs.Done, slot(1), 1, 0, ""},
		},
		{
			name: "what is left in the background is part of the check", script: "sleep 60 & exit 0", sidecar: `{"timeout": "50ms"}`,
			want: fate{jobs.Done, slot(1), 1, 0, ""},
		},
		{name: "within its deadline", script: "exit 0", sidecar: `{"deadline": "2h"}`, late: time.Hour, want: fate{jobs.Done, slot(1), 1, 0, ""}},
		{name: "past its deadline: not checked", script: "exit 0", sidecar: `{"deadline": "1h"}`, late: time.Hour + 1, want: fate{jobs.DeadlinePassed, slot(1), 0, 0, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.put(slot(1), "job", test.script)
			if test.sidecar != "" {
				w.write(w.path(slot(1), ".job.json"), test.sidecar, 0o644)
			}
			w.Set(slot(1).Add(test.late))
			if _, err := w.open(func(c *spool.Config) { c.Grace = 300 * time.Millisecond }).Run(t.Context(), slot(1)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.fate()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCannotBeStartedIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, content, want string }{
		{"no interpreter named", "echo hello", "the first line of a script names its interpreter"},
		{"no such interpreter", "#!/no/such/shell\n", "the interpreter that its first line names does not exist"},
		{"an empty file", "", "the first line of a script names its interpreter"},
	} {
		w := setup(t)
		w.write(w.path(slot(1), "job"), test.content, 0o755)
		w.run(slot(1))
		if got := w.fate(); got.ErrorCount != 1 || !strings.Contains(got.LastError, test.want) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

func TestACheckIsToldWhereItStands(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `env | grep ^PRESCIENT_ | grep -v TEST | sort; cat; [ "$(ls $T)" ]`)
	w.write(w.path(slot(1), ".job.json"), `{"check_count": 2, "error_count": 1, "retry": 1}`, 0o644)
	w.Set(slot(3))
	if _, err := w.open().CatchUp(t.Context(), spool.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`PRESCIENT_CAUGHT_UP=true
PRESCIENT_CHECK_COUNT=2
PRESCIENT_ERROR_COUNT=1
PRESCIENT_NAME=job
PRESCIENT_SLOT=2030-03-01T12:15:00Z
PRESCIENT_SPOOL_DIR=%s
`, w.dir)
	if diff := cmp.Diff(want, w.read(w.history()[0].Path+"/output")); diff != "" {
		t.Error(diff)
	}
}

func TestAnEntryOfHistoryTellsWhatHappened(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Set(noon)
	s := w.open()
	at, err := s.Add(t.Context(), slot(1), spool.Executable{Name: "job", Content: strings.NewReader(`#!/bin/sh
[ $PRESCIENT_CHECK_COUNT = 1 ] || exit 75
echo out; echo more
`)})
	if err != nil || !at.Equal(slot(1)) {
		t.Fatal(at, err)
	}
	w.run(slot(1))
	w.run(slot(2))
	history := w.history()
	if len(history) != 1 {
		t.Fatalf("%+v", history)
	}
	got := history[0]
	if got.Duration <= 0 || got.Spent <= got.Duration || !strings.Contains(got.Runner, ":") {
		t.Errorf("took %v of %v on %s", got.Duration, got.Spent, got.Runner)
	}
	path := got.Path
	got.Duration, got.Spent, got.Runner, got.Path = 0, 0, "", ""
	want := spool.Ended{
		Slot: slot(2), Name: "job", Outcome: jobs.Done, FinishedAt: slot(2), ExitStatus: new(0),
		Job: spool.Job{AddedAt: noon, FirstSlot: slot(1), CheckCount: 2, StartedAt: slot(2), Guards: spool.DefaultGuards()},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if path != w.dir+"/history/2603011230/job" && path != w.dir+"/history/3003011230/job" {
		t.Errorf("the entry is at %s", path)
	}
	if got := w.read(path + "/output"); got != "out\nmore\n" {
		t.Errorf("output %q", got)
	}
	if !strings.HasPrefix(w.read(path+"/executable"), "#!/bin/sh") {
		t.Error("the executable is not in history")
	}
	if left := w.tree(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOutputIsKeptInBounds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `echo first; head -c 3000000 /dev/zero | tr '\0' x; echo; echo last`)
	w.run(slot(1))
	got := w.read(w.history()[0].Path + "/output")
	if len(got) > spool.MaxOutput+100 || len(got) < spool.MaxOutput {
		t.Errorf("%d bytes are kept", len(got))
	}
	if !strings.HasPrefix(got, "first\nxxx") || !strings.HasSuffix(got, "xxx\nlast\n") {
		t.Error("beginning and end are not what was written")
	}
	if want := fmt.Sprintf("\n[... %d bytes left out ...]\n", 3000000+12-spool.MaxOutput); !strings.Contains(got, want) {
		t.Errorf("nothing says %q", want)
	}
}

func TestANameThatEndsAgainInItsSlotGetsAnEntryOfItsOwn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 3 {
		w.put(slot(1), "job", "exit 0")
		w.run(slot(1))
	}
	var got []string
	for _, e := range w.history() {
		got = append(got, strings.TrimPrefix(e.Path, w.dir+"/history/"))
	}
	if diff := cmp.Diff([]string{"3003011215/job", "3003011215/job.2", "3003011215/job.3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestANameThatIsTakenInTheSlotAskedForGoesToALaterOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", "exit 75")
	w.put(slot(2), "job", "echo mine")
	w.put(slot(3), "job", "echo mine")
	w.run(slot(1))
	if diff := cmp.Diff([]string{"12:30 due job", "12:45 waiting job", "13:00 waiting job"}, shift(w, slot(2))); diff != "" {
		t.Error(diff)
	}
	if got := w.read(w.path(slot(4), "job")); !strings.Contains(got, "exit 75") {
		t.Errorf("slot 4 has %q", got)
	}
}

func TestACheckThatOutlivesSIGKILLIsAbandonedAndKeepsItsLock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// A session of its own is out of reach, and it has the output open.
	w.put(slot(1), "job", `setsid sh -c 'echo $$ > '$T/pid'; while [ -d '$T' -a ! -e '$T/go' ]; do sleep 0.05; done' & exit 0`)
	w.write(w.path(slot(1), ".job.json"), `{"timeout": "300ms"}`, 0o644)
	w.Set(slot(1))
	result, err := w.open(func(c *spool.Config) { c.Grace = -1 }).Run(t.Context(), slot(1))
	if !errors.Is(err, slots.ErrAbandoned) || result.Abandoned != 1 || result.Failed != 1 {
		t.Errorf("%+v, error %v", result, err)
	}
	want := fate{"", slot(2), 0, 1, "timeout after 300ms: the check, or something it has started, outlived SIGKILL and was abandoned"}
	if diff := cmp.Diff(want, w.fate()); diff != "" {
		t.Error(diff)
	}
	if second := w.run(slot(2)); second.Running != 1 || second.State != slots.StateOpen {
		t.Errorf("while it goes on: %+v", second)
	}
	w.write(w.trace+"/go", "", 0o644)
	w.eventually("it to end", func() bool { return cmp.Equal([]string{"12:30 due job"}, w.list()) })
}

// shift lists the spool at another time.
func shift(w *world, now time.Time) []string {
	w.Set(now)
	return w.list()
}
