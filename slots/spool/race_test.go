package spool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/spool"
)

// touch creates an empty file that scripts wait for.
func (w *world) touch(name string) { w.write(filepath.Join(w.trace, name), "", 0o644) }

// once tells whether there is one trace of each of n executables, named a0, a1 ...
func once(traces map[string]int, n int) string {
	want := map[string]int{}
	for i := range n {
		want[fmt.Sprintf("a%d", i)] = 1
	}
	return cmp.Diff(want, traces)
}

func TestTwoRunsAtOnceStartNothingTwice(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		w := setup(t)
		const n = 200
		for i := range n {
			w.put(slot(1), fmt.Sprintf("a%d", i), `echo $PRESCIENT_NAME >> $T/started`)
		}
		// Two processes, and two runs in this one; a catch-up comes later, when all is done or not.
		w.Set(slot(1))
		processes := []func(){}
		for range 2 {
			p := w.start()
			processes = append(processes, func() { w.finish(p) })
		}
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				if _, err := w.open().Run(t.Context(), slot(1)); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		for _, finish := range processes {
			finish()
		}
		if diff := once(w.traces("started"), n); diff != "" {
			t.Errorf("round %d: %s", round, diff)
		}
		if got := len(w.history()); got != n {
			t.Errorf("round %d: %d ended, want %d", round, got, n)
		}
		if left := w.tree(); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestASlotThatAnotherRunHasIsNothingToDo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done`)
	w.Set(slot(1))
	finished := make(chan spool.Result)
	s := w.open()
	go func() {
		result, err := s.Run(context.WithoutCancel(t.Context()), slot(1))
		if err != nil {
			t.Error(err)
		}
		finished <- result
	}()
	w.eventually("the check to run", func() bool { return slices.Contains(w.list(), "12:15 running job") })
	second := w.run(slot(1))
	if !second.Held || second.State != slots.StateOpen || second.Checked != 0 || second.Running != 0 {
		t.Errorf("the second run: %+v", second)
	}
	w.touch("go")
	if first := <-finished; first.Finished != 1 || first.State != slots.StateDone {
		t.Errorf("the first run: %+v", first)
	}
	if third := w.run(slot(1)); third.Held || third.Checked != 0 || third.State != slots.StateDone {
		t.Errorf("a run afterwards: %+v", third)
	}
}

func TestWhoeverLooksClaimsOrMovesWaitsForTheLockOfTheSpool(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	w.Set(slot(1))
	dir, err := os.Open(w.dir)
	if err == nil {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := w.open()
	ctx := context.WithoutCancel(t.Context())
	done := make(chan string, 3)
	var all sync.WaitGroup
	for name, do := range map[string]func() error{
		"list": func() error { _, err := s.List(); return err },
		"run":  func() error { _, err := s.Run(ctx, slot(1)); return err },
		"add": func() error {
			_, err := s.Add(ctx, slot(2), spool.Executable{Name: "job", Content: strings.NewReader(hello)})
			return err
		},
	} {
		all.Go(func() {
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			done <- name
		})
	}
	select {
	case name := <-done:
		t.Errorf("%s did not wait", name)
	case <-time.After(100 * time.Millisecond):
	}
	if diff := cmp.Diff([]string{"3003011215", "3003011215/job"}, w.tree()); diff != "" {
		t.Error(diff)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if diff := cmp.Diff([]string{"12:30 waiting job"}, w.list()); diff != "" || len(w.history()) != 1 {
		t.Error(diff)
	}
}

func TestADaemonThatACheckLeavesBehindDoesNotHoldUpTheNextOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `setsid sh -c 'while [ -d '$T' -a ! -e '$T/go' ]; do sleep 0.05; done' > /dev/null 2>&1 & exit 75`)
	w.run(slot(1))
	if result := w.run(slot(2)); result.Rescheduled != 1 || result.Running != 0 {
		t.Errorf("%+v", result)
	}
	w.touch("go")
}

func TestARunnerThatIsKilledLosesNothingAndItsOrphansAreLeftAloneUntilTheyEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 120
	for i := range n {
		w.put(slot(1), fmt.Sprintf("a%d", i), `echo $PRESCIENT_NAME >> $T/started; sleep 0.02; echo $PRESCIENT_NAME >> $T/ended`)
	}
	w.put(slot(1), "0-orphan", `
		mkdir $T/orphan.running || echo twice >> $T/overlap
		echo once >> $T/orphans
		while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done
		rmdir $T/orphan.running`)
	p := w.start()
	w.eventually("the run to be under way", func() bool {
		return len(w.traces("started")) > n/3 && len(w.traces("orphans")) > 0 || len(w.traces("ended")) == n
	})
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()

	w.Set(slot(2))
	w.eventually("all but the orphan to be caught up on", func() bool {
		if _, err := w.open().CatchUp(t.Context(), spool.CatchUp{}); err != nil {
			t.Fatal(err)
		}
		return len(w.history()) == n
	})
	if diff := cmp.Diff([]string{"12:15 running 0-orphan"}, w.list()); diff != "" {
		t.Error(diff)
	}
	w.touch("go")
	w.eventually("the orphan to be checked again", func() bool {
		if _, err := w.open().CatchUp(t.Context(), spool.CatchUp{}); err != nil {
			t.Fatal(err)
		}
		return len(w.history()) == n+1
	})
	ended := w.traces("ended")
	twice := 0
	for i := range n {
		switch ended[fmt.Sprintf("a%d", i)] {
		case 0:
			t.Errorf("a%d never ended", i)
		case 1:
		default:
			twice++
		}
	}
	if twice > 8 {
		t.Errorf("%d were checked again, more than ran at once", twice)
	}
	if overlap := w.traces("overlap"); len(overlap) != 0 || w.traces("orphans")["once"] != 2 {
		t.Errorf("orphan: started %v, overlap %v; want twice, one after the other", w.traces("orphans"), overlap)
	}
	for _, e := range w.history() {
		if e.Outcome != jobs.Done || e.CheckCount != 1 {
			t.Errorf("%+v", e)
		}
	}
	if left := w.tree(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRunnersThatAreKilledAgainAndAgainLoseNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 60
	for i := range n {
		script := `echo $PRESCIENT_NAME >> $T/ended`
		if i%2 == 0 {
			script += "; exit 75"
		}
		w.put(slot(1), fmt.Sprintf("a%d", i), script)
	}
	// Each is killed a little later than the one before, at whatever it does then.
	for round := 0; len(w.history()) < n/2; round++ {
		p := w.start()
		time.AfterFunc(time.Duration(30+3*round)*time.Millisecond, func() { _ = p.Process.Kill() })
		_ = p.Wait()
		if round > 200 {
			t.Fatalf("%d ended after %d runs", len(w.history()), round)
		}
	}
	w.eventually("the slot to be empty", func() bool { return w.run(slot(1)).State == slots.StateDone })
	moved := 0
	for _, line := range w.list() {
		if !strings.HasPrefix(line, "12:30 waiting a") {
			t.Errorf("list: %s", line)
		}
		moved++
	}
	if ended := len(w.history()); ended != n/2 || moved != n/2 {
		t.Errorf("%d ended and %d moved, want %d and %d: each in exactly one place", ended, moved, n/2, n/2)
	}
	files, err := w.open().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.CheckCount != 1 {
			t.Errorf("%s has %d checks behind it, want the one that was recorded", f.Name, f.CheckCount)
		}
	}
	for i := range n {
		if w.traces("ended")[fmt.Sprintf("a%d", i)] == 0 {
			t.Errorf("a%d was never checked", i)
		}
	}
}

func TestARunThatIsStoppedRecordsWhatEndsInItsGracePeriodAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "a-quick", `touch $T/quick; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done; echo ended >> $T/ended`)
	w.put(slot(1), "b-stuck", `trap '' TERM; touch $T/stuck; while :; do sleep 0.01; done`)
	for i := range 20 {
		w.put(slot(1), fmt.Sprintf("c%d", i), `echo $PRESCIENT_NAME >> $T/started; touch $T/more; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done; exit 75`)
	}
	p := w.start() // 8 at once
	w.eventually("the checks to run", func() bool {
		return w.exists("quick") && w.exists("stuck") && len(w.traces("started")) == 6
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.touch("go")
	result, code := w.finish(p)
	if code != 4 || result.State != slots.StateOpen {
		t.Errorf("exit code %d: %+v", code, result)
	}
	// Those that were freed by the end of others before the signal was noticed may have started, too.
	if result.Finished != 1 || result.Rescheduled < 6 || result.Failed != 0 {
		t.Errorf("%+v", result)
	}
	files, err := w.open().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name == "b-stuck" && (!f.Slot.Equal(slot(1)) || f.ErrorCount != 0) {
			t.Errorf("what the stop has ended: %+v, want it as it was", f)
		}
	}
	if got := len(files) + len(w.history()); got != 22 {
		t.Errorf("%d executables, want 22", got)
	}
	for _, f := range files {
		if f.State == spool.StateRunning {
			t.Errorf("%s still runs", f.Name)
		}
	}
}

func (w *world) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(w.trace, name))
	return err == nil
}

func TestWhatIsTakenAwayOrReplacedWhileItIsCheckedStaysAsItsOwnerWantsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "gone", `rm "$0"; exit 75`)
	w.put(slot(1), "moved", `mkdir -p $PRESCIENT_SPOOL_DIR/3003011800; mv "$0" $PRESCIENT_SPOOL_DIR/3003011800/; exit 1`)
	w.put(slot(1), "replaced", `cp "$0" $T/new; echo '# new' >> $T/new; mv $T/new "$0"; exit 0`)
	result := w.run(slot(1))
	if result.Yielded != 3 || result.Checked != 0 {
		t.Errorf("%+v", result)
	}
	if diff := cmp.Diff([]string{"12:15 due replaced", "18:00 waiting moved"}, w.list()); diff != "" {
		t.Error(diff)
	}
	if got := w.read(w.path(slot(1), "replaced")); !strings.Contains(got, "# new") {
		t.Errorf("the replacement is %q", got)
	}
}

func TestASlotThatIsTakenAwayWhileItIsRunIsNoFailure(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "all", `rm -r "$(dirname "$0")"`)
	if result := w.run(slot(1)); result.Yielded != 1 || result.Checked != 0 {
		t.Errorf("%+v", result)
	}
	if list := w.list(); len(list) > 0 {
		t.Error(list)
	}
}

func TestASpoolThatCannotBeWrittenStartsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 20 {
		w.put(slot(1), fmt.Sprintf("a%d", i), `echo $PRESCIENT_NAME >> $T/started`)
		w.write(w.path(slot(1), fmt.Sprintf(".a%d.json~/in-the-way", i)), "", 0o644) // root may write everywhere else
	}
	w.Set(slot(1))
	result, err := w.open().Run(t.Context(), slot(1))
	if err == nil || !strings.Contains(err.Error(), "is not started: open") {
		t.Errorf("error %v", err)
	}
	if result.Checked != 0 || result.State != slots.StateOpen || len(w.traces("started")) != 0 {
		t.Errorf("%+v, started %v", result, w.traces("started"))
	}
}

func TestAnOutcomeThatCannotBeRecordedStopsTheRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 50 {
		w.put(slot(1), fmt.Sprintf("a%d", i), `echo $PRESCIENT_NAME >> $T/started`)
	}
	w.write(filepath.Join(w.dir, "history"), "in the way", 0o644)
	w.Set(slot(1))
	result, err := w.open(func(c *spool.Config) { c.Workers = 2 }).Run(t.Context(), slot(1))
	if err == nil || !strings.Contains(err.Error(), "record "+w.path(slot(1), "a0")) || errors.Is(err, slots.ErrStopped) {
		t.Errorf("error %v", err)
	}
	if n := len(w.traces("started")); result.Checked != 0 || result.State != slots.StateOpen || n > 4 {
		t.Errorf("%+v after %d checks", result, n)
	}
	if err := os.Remove(filepath.Join(w.dir, "history")); err != nil {
		t.Fatal(err)
	}
	if result := w.run(slot(1)); result.Finished != 50 {
		t.Errorf("the next run: %+v", result)
	}
}
