package spool_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/spool"
)

const leaveTrace = `echo $PRESCIENT_NAME >> $T/order`

// caught runs a catch-up and returns the slots it found, as "12:15 1 open" with what waits in them and how they are now.
func (w *world) caught(c spool.CatchUp) []string {
	w.t.Helper()
	missed, err := w.open().CatchUp(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	list := []string{}
	for _, m := range missed {
		line := m.Slot.Format("15:04") + " " + string(rune('0'+m.Waiting))
		if m.Result != nil {
			line += " " + string(m.Result.State)
		}
		list = append(list, line)
	}
	return list
}

func TestCatchUpTakesTheOldestSlotFirstAndLeavesTheCurrentOneToItsRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n, name := range []string{"z", "b", "y", "a", "x"} {
		w.put(slot(n), name, leaveTrace)
	}
	w.Set(slot(3).Add(time.Minute))
	if diff := cmp.Diff([]string{"12:00 1", "12:15 1", "12:30 1"}, w.caught(spool.CatchUp{DryRun: true})); diff != "" {
		t.Error(diff)
	}
	if got := w.read(filepath.Join(w.trace, "order")); got != "" {
		t.Errorf("a dry run ran %q", got)
	}
	if diff := cmp.Diff([]string{"12:15 1 done"}, w.caught(spool.CatchUp{Since: slot(1), Until: slot(2)})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"12:00 1 done", "12:30 1 done"}, w.caught(spool.CatchUp{})); diff != "" {
		t.Error(diff)
	}
	if got := w.read(filepath.Join(w.trace, "order")); got != "b\nz\ny\n" {
		t.Errorf("order %q", got)
	}
	if diff := cmp.Diff([]string{"12:45 due a", "13:00 waiting x"}, w.list()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{}, w.caught(spool.CatchUp{})); diff != "" {
		t.Error(diff)
	}
	for _, e := range w.history() {
		if !e.CaughtUp {
			t.Errorf("%s was not caught up on", e.Name)
		}
	}
}

func TestCatchUpDoesAsTheMisfirePolicyAndTheModeSay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		sidecar string
		mode    slots.Mode
		want    fate
	}{
		{"run", `{}`, slots.ModeRun, fate{jobs.Done, slot(1), 1, 0, ""}},
		{"the policy defer", `{"misfire": "defer", "check_count": 1}`, "", fate{"", slot(6), 1, 0, ""}},
		{"the policy skip", `{"misfire": "skip"}`, slots.ModeRun, fate{jobs.Skipped, slot(1), 0, 0, ""}},
		{"the mode defer", `{"misfire": "skip", "error_count": 1}`, slots.ModeDefer, fate{"", slot(6), 0, 1, ""}},
		{"the mode expire, past the deadline", `{"deadline": "30m"}`, slots.ModeExpire, fate{jobs.DeadlinePassed, slot(1), 0, 0, ""}},
		{"the mode expire, within the deadline", `{"deadline": "90m"}`, slots.ModeExpire, fate{"", slot(1), 0, 0, ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.put(slot(1), "job", leaveTrace)
			w.write(w.path(slot(1), ".job.json"), test.sidecar, 0o644)
			w.Set(slot(5).Add(time.Minute))
			w.caught(spool.CatchUp{Mode: test.mode})
			if diff := cmp.Diff(test.want, w.fate()); diff != "" {
				t.Error(diff)
			}
			if ran := len(w.traces("order")) > 0; ran != (test.want.Outcome == jobs.Done) {
				t.Errorf("it ran: %t", ran)
			}
		})
	}
}

func TestAModeThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := setup(t).open().CatchUp(t.Context(), spool.CatchUp{Mode: "skip"}); err == nil || !strings.Contains(err.Error(), "must be run, defer or expire") {
		t.Errorf("error %v", err)
	}
}

func TestASlotInTroubleDoesNotKeepCatchUpFromTheNextOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "one", leaveTrace)
	w.put(slot(2), "two", leaveTrace)
	w.write(filepath.Join(w.dir, "history", slot(1).Format("0601021504")), "in the way", 0o644)
	w.Set(slot(3))
	missed, err := w.open().CatchUp(t.Context(), spool.CatchUp{})
	if err == nil || !strings.Contains(err.Error(), "run slot 2030-03-01T12:15:00Z: record") {
		t.Errorf("error %v", err)
	}
	if len(missed) != 2 || missed[0].Result.State != slots.StateOpen || missed[1].Result.Finished != 1 {
		t.Errorf("%+v", missed)
	}
}

func TestACatchUpThatIsStoppedLeavesTheLaterSlots(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "one", `touch $T/one; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done; `+leaveTrace)
	w.put(slot(2), "two", leaveTrace)
	w.Set(slot(3))
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		w.eventually("the first check to run", func() bool { return w.exists("one") })
		stop()
		w.touch("go")
	}()
	missed, err := w.open(func(c *spool.Config) { c.Grace = 20 * time.Second }).CatchUp(ctx, spool.CatchUp{})
	if !errors.Is(err, slots.ErrStopped) || len(missed) != 2 || missed[0].Result.Finished != 1 || missed[1].Result != nil {
		t.Errorf("%+v, error %v", missed, err)
	}
	if diff := cmp.Diff([]string{"12:30 missed two"}, w.list()); diff != "" {
		t.Error(diff)
	}
}

func TestWhichSlotARunIsFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(2), "job", leaveTrace)
	for _, test := range []struct {
		name    string
		now     time.Time
		jobName string
		want    time.Time
	}{
		{"after a boundary", slot(4).Add(14 * time.Minute), "", slot(4)},
		{"a little before a boundary it is that boundary", slot(4).Add(-5 * time.Second), "", slot(4)},
		{"earlier it is the slot before", slot(4).Add(-6 * time.Second), "", slot(3)},
		{"the name of a Job gives the slot", slot(6), "spool-31643317", time.Unix(31643310*60, 0).UTC()},
		{"a name that is not a CronJob's", slot(4), "spool-2", slot(4)},
		{"a name in the future", slot(4), "spool-99999999", slot(4)},
		{"a name whose slot is not there", slot(6), "spool-20261125", slot(6)},
	} {
		w.Set(test.now)
		if got := w.open().Due(test.jobName); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestASlotIsNeverRunEarly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	for _, test := range []struct {
		now, slot time.Time
		want      string
	}{
		{slot(1).Add(-6 * time.Second), slot(1), "slot 2030-03-01T12:15:00Z is 6s ahead: a slot is never run early"},
		{slot(1), slot(1).Add(time.Minute), "is not a slot: the width is 15m0s"},
	} {
		w.Set(test.now)
		if _, err := w.open().Run(t.Context(), test.slot); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	// A clock that runs, from 30 ms before the boundary on.
	started := time.Now()
	running := func() time.Time { return slot(1).Add(-30*time.Millisecond + time.Since(started)) }
	if _, err := w.open(func(c *spool.Config) { c.Now = running }).Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	if e := w.history()[0]; e.StartedAt.Before(slot(1)) {
		t.Errorf("it started at %s", e.StartedAt)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Set(slot(2).Add(-time.Second))
	if _, err := w.open().Run(ctx, slot(2)); !errors.Is(err, slots.ErrStopped) {
		t.Errorf("a run that is stopped while it waits: %v", err)
	}
}

func TestWhatIsNoExecutableOfASlotIsReportedAndNeverRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	dir := filepath.Dir(w.path(slot(1), "x"))
	w.put(slot(1), "good", leaveTrace)
	w.write(filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	w.write(filepath.Join(dir, "shared"), "#!/bin/sh\n", 0o777)
	w.write(filepath.Join(dir, ".hidden"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(dir, "sub", "job"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(dir, "new\nline"), "#!/bin/sh\n", 0o755)
	w.put(slot(1), "spoilt", leaveTrace)
	w.write(filepath.Join(dir, ".spoilt.json"), `{"timeout": 5}`, 0o644)
	w.put(slot(1), "senseless", leaveTrace)
	w.write(filepath.Join(dir, ".senseless.json"), `{"max_checks": 0}`, 0o644)
	w.put(slot(1), "piped", leaveTrace)
	if err := syscall.Mkfifo(filepath.Join(dir, ".piped.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.dir, "3003011217", "job"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(w.dir, "2603011300.bak"), "", 0o644)
	w.write(filepath.Join(w.dir, "3003011300"), "", 0o644)
	if err := os.Symlink("/bin/true", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	result := w.run(slot(1))
	if result.Finished != 1 || result.Refused != 10 || result.State != slots.StateOpen {
		t.Errorf("%+v", result)
	}
	files, err := w.open().List()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		if f.State != spool.StateRefused {
			t.Errorf("%q is %s", f.Name, f.State)
		}
		got[f.Name] = strings.ReplaceAll(f.Problem, w.dir, "DIR")
	}
	want := map[string]string{
		"plain":          "not executable: chmod +x it, or move it away",
		"shared":         "everybody may write to it: chmod o-w it",
		".hidden":        "name: must not begin with a dot: hidden files are not run",
		"sub":            "a directory: executables belong into the slot's own directory",
		"new\nline":      "name: must be UTF-8 without control characters",
		"link":           "no regular file: put the executable itself here",
		"senseless":      "read DIR/3003011215/.senseless.json: max_checks: must be at least 1; correct it, or remove it for the defaults",
		"piped":          "DIR/3003011215/.piped.json is no regular file",
		".piped.json":    "no regular file: put the executable itself here",
		"3003011217":     "not on the grid of 15m0s: move what is in it to 3003011230",
		"2603011300.bak": "not named after a slot: want yymmddhhmm in UTC, such as 3003011215",
		"3003011300":     "no directory",
	}
	if spoilt := got["spoilt"]; !strings.Contains(spoilt, "timeout") {
		t.Errorf("spoilt: %s", spoilt)
	}
	delete(got, "spoilt")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"good": 1}, w.traces("order")); diff != "" {
		t.Error(diff)
	}
}

func TestASlotThatEverybodyMayWriteToIsNotRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	if err := os.Chmod(filepath.Dir(w.path(slot(1), "job")), 0o777); err != nil {
		t.Fatal(err)
	}
	w.Set(slot(1))
	if _, err := w.open().Run(t.Context(), slot(1)); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("error %v", err)
	}
	if len(w.traces("order")) != 0 {
		t.Error("it ran")
	}
}

// A clock may be set back while a slot is caught up on.
func TestACatchUpThatDefersNeverMovesAnExecutableToAnEarlierSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(5), "check", "exit 0")
	asked := 0
	s := w.open(func(c *spool.Config) {
		c.Now = func() time.Time {
			if asked++; asked > 1 { // once for the current slot
				return slot(2)
			}
			return slot(6)
		}
	})
	if _, err := s.CatchUp(t.Context(), spool.CatchUp{Mode: slots.ModeDefer}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.path(slot(6), "check")); err != nil {
		t.Error(err)
	}
}
