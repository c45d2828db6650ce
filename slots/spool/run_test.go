package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/spool"
)

const leaveTrace = `echo $PRESCIENT_NAME >> $T/order`

func (w *world) order() string { return w.read(filepath.Join(w.trace, "order")) }

// touch creates an empty file that scripts wait for.
func (w *world) touch(name string) { w.write(filepath.Join(w.trace, name), "", 0o644) }

func (w *world) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(w.trace, name))
	return err == nil
}

func TestARunTakesTheFilesOfItsSlotInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, name := range []string{"c", "a", "b"} {
		w.put(slot(1), name, leaveTrace)
	}
	w.put(slot(0), "missed", leaveTrace)
	w.put(slot(2), "waiting", leaveTrace)
	w.run(slot(1).Add(14 * time.Minute))
	if got := w.order(); got != "a\nb\nc\n" {
		t.Errorf("order %q", got)
	}
	if diff := cmp.Diff([]string{"12:00 missed missed", "12:30 waiting waiting"}, w.list()); diff != "" {
		t.Error(diff)
	}
}

// A folder made by hand may have any minute.
func TestAFolderBetweenTwoSlotsBelongsToTheNextSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1).Add(time.Minute), "job", leaveTrace)
	if got := w.run(slot(1).Add(14 * time.Minute)); len(got) != 0 {
		t.Errorf("run early: %v", got)
	}
	if diff := cmp.Diff([]string{"12:30 waiting job"}, w.list()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"done job"}, w.run(slot(2))); diff != "" {
		t.Error(diff)
	}
}

func TestAFileNeverRunsBeforeTheInstantOfItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	w.Set(slot(1).Add(-time.Millisecond))
	if got := append(w.run(w.Now()), w.catchUp()...); len(got) != 0 {
		t.Errorf("run early: %v", got)
	}
	if diff := cmp.Diff([]string{"done job"}, w.run(slot(1))); diff != "" {
		t.Error(diff)
	}
}

func TestCatchUpTakesTheOldestSlotFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n, name := range []string{"z", "b", "y", "a", "x"} {
		w.put(slot(n), name, leaveTrace)
	}
	w.Set(slot(3).Add(time.Minute))
	w.catchUp()
	if got := w.order(); got != "z\nb\ny\na\n" {
		t.Errorf("order %q", got)
	}
	if diff := cmp.Diff([]string{"13:00 waiting x"}, w.list()); diff != "" {
		t.Error(diff)
	}
	if got := w.catchUp(); len(got) != 0 {
		t.Errorf("caught up again: %v", got)
	}
}

// The run of the next slot finds the lock held and does nothing.
func TestARunGoesOnWithASlotThatBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "a", `touch $T/first; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done; `+leaveTrace)
	w.put(slot(2), "b", leaveTrace)
	w.put(slot(3), "c", leaveTrace)
	go func() {
		w.eventually("the first check to run", func() bool { return w.exists("first") })
		w.Set(slot(2))
		w.touch("go")
	}()
	w.run(slot(1))
	if got := w.order(); got != "a\nb\n" {
		t.Errorf("order %q", got)
	}
}

// The runs of both later slots find the lock held and do nothing.
func TestARunWithoutCatchUpLeavesNoSlotThatBeganWhileItRan(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(0), "missed", leaveTrace)
	w.put(slot(1), "a", `touch $T/first; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done; `+leaveTrace)
	w.put(slot(2), "b", leaveTrace)
	w.put(slot(3), "c", leaveTrace)
	w.put(slot(4), "d", leaveTrace)
	go func() {
		w.eventually("the first check to run", func() bool { return w.exists("first") })
		w.Set(slot(3))
		w.touch("go")
	}()
	w.run(slot(1))
	if got := w.order(); got != "a\nb\nc\n" {
		t.Errorf("order %q", got)
	}
}

func TestWhatCannotRunIsReportedAndNeverRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	dir := filepath.Dir(w.path(slot(1), "x"))
	w.put(slot(1), "good", leaveTrace)
	w.write(filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	w.write(filepath.Join(dir, "shared"), "#!/bin/sh\n", 0o777)
	w.write(filepath.Join(dir, ".hidden"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(dir, "sub", "job"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(dir, "new\nline"), "#!/bin/sh\n", 0o755)
	w.write(filepath.Join(w.dir, "2603011300.bak"), "", 0o644)
	w.write(filepath.Join(w.dir, "3003011300"), "", 0o644)
	if err := os.Symlink("/bin/true", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	const name = "name: must have 1 to 200 bytes, not begin with a dot, and have no slash, comma or control character"
	want := map[string]string{
		"plain":          "not executable: chmod +x it, or move it away",
		"shared":         "every user may write to it (mode 0777); if its content is right, trust it by: chmod go-w DIR/3003011215/shared",
		".hidden":        name,
		"sub":            "not a regular file: put the executable itself here",
		"new\nline":      name,
		"link":           "not a regular file: put the executable itself here",
		"2603011300.bak": "not named after a slot: want yymmddhhmm in UTC, such as 3003011230",
		"3003011300":     "not a folder",
	}
	w.Set(slot(1))
	if got := w.catchUp(); len(got) != 7 || !slices.Contains(got, "done good") {
		t.Errorf("%v", got)
	}
	files, err := w.open().Files()
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := w.order(); got != "good\n" {
		t.Errorf("order %q", got)
	}
}

// The owner of a file, and every user who may write to it or to a directory above it, decides what runs.
func TestWhatAnotherUserOwnsOrCanWriteIsNeverRun(t *testing.T) {
	t.Parallel()
	const other = 54321
	for name, spoil := range map[string]func(path string) error{
		"owned by another user":    func(path string) error { return os.Chown(path, other, -1) },
		"written by its group":     func(path string) error { return errors.Join(os.Chown(path, -1, other), os.Chmod(path, 0o775)) },
		"written by all the world": func(path string) error { return os.Chmod(path, 0o757) },
	} {
		for level, of := range map[string]func(file string) string{
			"file":   func(file string) string { return file },
			"folder": filepath.Dir,
			"spool":  func(file string) string { return filepath.Dir(filepath.Dir(file)) },
		} {
			t.Run(name+" "+level, func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.put(slot(1), "job", leaveTrace)
				path := of(w.path(slot(1), "job"))
				if err := spoil(path); errors.Is(err, os.ErrPermission) {
					t.Skip("only root can give files away")
				} else if err != nil {
					t.Fatal(err)
				}
				w.Set(slot(1))
				s, err := spool.Open(spool.Config{Dir: w.dir, Now: w.Now, Logger: slog.New(slog.DiscardHandler)})
				if level == "spool" {
					if err == nil || !strings.Contains(err.Error(), w.dir+" is refused: ") {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				files, err := s.Run(t.Context(), true)
				if err != nil || len(files) != 1 || files[0].State != spool.StateRefused || !strings.Contains(files[0].Problem, "trust it by: ch") {
					t.Errorf("%+v, error %v", files, err)
				}
				if w.order() != "" {
					t.Error("it ran")
				}
			})
		}
	}
}

func TestTwoRunsAtOnceStartNothingTwice(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 60
	for i := range n {
		w.put(slot(1), fmt.Sprintf("a%d", i), leaveTrace)
	}
	w.Set(slot(1))
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if _, err := w.open().Run(t.Context(), true); err != nil && !errors.Is(err, spool.ErrHeld) {
				t.Error(err)
			}
		})
		p := w.start()
		running.Go(func() { _ = p.Wait() })
	}
	running.Wait()
	for name, times := range w.traces("order") {
		if times != 1 {
			t.Errorf("%s ran %d times", name, times)
		}
	}
	if got := w.tree(); len(got) != n || !strings.HasPrefix(got[0], "done/") {
		t.Errorf("%v", got)
	}
}

func TestARunFindsTheLockHeldAndDoesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `touch $T/running; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done`)
	w.Set(slot(1))
	s := w.open()
	finished := make(chan []spool.File)
	go func() {
		files, err := s.Run(context.WithoutCancel(t.Context()), false)
		if err != nil {
			t.Error(err)
		}
		finished <- files
	}()
	w.eventually("the check to run", func() bool { return w.exists("running") })
	if files, err := s.Run(t.Context(), true); !errors.Is(err, spool.ErrHeld) || len(files) != 0 {
		t.Errorf("the second run: %v, error %v", files, err)
	}
	if _, err := w.add(slot(2), "job", hello); err != nil {
		t.Errorf("an add meanwhile: %v", err)
	}
	w.touch("go")
	if diff := cmp.Diff([]string{"done job"}, told(<-finished)); diff != "" {
		t.Error(diff)
	}
}

// Another user who could lock something of the spool could stop its runs.
func TestOnlyTheOwnerCanOpenTheLock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(slot(1))
	if info, err := os.Stat(filepath.Join(w.dir, ".lock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, error %v", info.Mode(), err)
	}
}

func TestADaemonThatACheckLeavesBehindDoesNotHoldUpTheNextRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", `setsid sh -c 'while [ -d '$T' -a ! -e '$T/go' ]; do sleep 0.05; done' & exit 75`)
	w.run(slot(1))
	if diff := cmp.Diff([]string{"moved job,checks=2,errors=0"}, w.run(slot(2))); diff != "" {
		t.Error(diff)
	}
	w.touch("go")
}

func TestACheckWhoseRunWasKilledHoldsTheLockAndIsRepeatedAfterItsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "a", leaveTrace)
	w.put(slot(1), "b-orphan", `
		mkdir $T/running || echo twice >> $T/overlap
		echo once >> $T/orphans
		while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done
		rmdir $T/running`)
	w.put(slot(1), "c", leaveTrace)
	p := w.start()
	w.eventually("the orphan to run", func() bool { return w.exists("orphans") })
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()

	w.Set(slot(2))
	if _, err := w.open().Run(t.Context(), true); !errors.Is(err, spool.ErrHeld) {
		t.Errorf("while the orphan runs: %v", err)
	}
	if diff := cmp.Diff([]string{"12:15 missed b-orphan", "12:15 missed c"}, w.list()); diff != "" {
		t.Error(diff)
	}
	w.touch("go")
	w.eventually("the lock to be free", func() bool {
		_, err := w.open().Run(t.Context(), true)
		return err == nil
	})
	if diff := cmp.Diff([]string{"done/12:15/a", "done/12:15/b-orphan", "done/12:15/c"}, w.tree()); diff != "" {
		t.Error(diff)
	}
	if w.exists("overlap") || w.traces("orphans")["once"] != 2 || w.order() != "a\nc\n" {
		t.Errorf("orphan: %v, order %q", w.traces("orphans"), w.order())
	}
}

func TestRunsThatAreKilledAgainAndAgainLoseNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const n = 40
	for i := range n {
		script := leaveTrace
		if i%2 == 0 {
			script += "; exit 75"
		}
		w.put(slot(1), fmt.Sprintf("a%02d", i), script)
	}
	ended := func() int { return len(w.tree()) - strings.Count(strings.Join(w.tree(), "\n"), "12:15/a") }
	for round := 0; ended() < n/2 && round < 100; round++ {
		p := w.start()
		time.AfterFunc(time.Duration(20+3*round)*time.Millisecond, func() { _ = p.Process.Kill() }) // at whatever it does then
		_ = p.Wait()
	}
	w.Set(slot(1))
	w.eventually("the last orphan to end", func() bool {
		_, err := w.open().Run(t.Context(), false)
		return err == nil
	})
	var want []string
	for i := 0; i < n; i += 2 {
		want = append(want, fmt.Sprintf("12:30/a%02d,checks=1,errors=0", i))
	}
	for i := 1; i < n; i += 2 {
		want = append(want, fmt.Sprintf("done/12:15/a%02d", i))
	}
	if diff := cmp.Diff(want, w.tree()); diff != "" {
		t.Error(diff)
	}
	if got := len(w.traces("order")); got != n {
		t.Errorf("%d were checked, want %d", got, n)
	}
}

func TestARunThatIsStoppedRecordsACheckThatEndsInItsGracePeriod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		grace  time.Duration
		want   []string
	}{
		"in time": {
			`touch $T/running; while [ -d $T -a ! -e $T/go ]; do sleep 0.01; done`, time.Minute, []string{"12:15/b", "done/12:15/a"},
		},
		"ended, with exit 0": {
			`trap 'exit 0' TERM; touch $T/running; while :; do sleep 0.01; done`, 100 * time.Millisecond, []string{"12:15/a", "12:15/b"},
		},
		"stuck": {
			`trap '' TERM; touch $T/running; while :; do sleep 0.01; done`, 100 * time.Millisecond, []string{"12:15/a", "12:15/b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.put(slot(1), "a", test.script)
			w.put(slot(1), "b", leaveTrace)
			w.Set(slot(1))
			s := w.open(func(c *spool.Config) { c.Grace = test.grace })
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.Run(ctx, false)
				ended <- err
			}()
			w.eventually("the check to run", func() bool { return w.exists("running") })
			stop()
			w.touch("go")
			if err := <-ended; !errors.Is(err, slots.ErrStopped) {
				t.Errorf("the run ended with %v", err)
			}
			if diff := cmp.Diff(test.want, w.tree()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARunThatIsStoppedBeforeItBeginsStartsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "job", leaveTrace)
	w.Set(slot(1))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := w.open().Run(ctx, true); !errors.Is(err, slots.ErrStopped) || w.order() != "" {
		t.Errorf("error %v, ran %q", err, w.order())
	}
}

func TestWhatIsRemovedOrReplacedWhileItRunsStaysAsItsOwnerWantsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "gone", `rm "$0"; exit 75`)
	w.put(slot(1), "moved", `mkdir -p $PRESCIENT_SPOOL_DIR/3003011800; mv "$0" $PRESCIENT_SPOOL_DIR/3003011800/; exit 1`)
	w.put(slot(1), "replaced", `cp "$0" $T/new; echo '# new' >> $T/new; mv $T/new "$0"; exit 0`)
	const left = ": it was removed or replaced while it ran"
	if diff := cmp.Diff([]string{"left gone" + left, "left moved" + left, "left replaced" + left}, w.run(slot(1))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"12:15/replaced", "18:00/moved"}, w.tree()); diff != "" {
		t.Error(diff)
	}
	if got := w.read(w.path(slot(1), "replaced")); !strings.Contains(got, "# new") {
		t.Errorf("the replacement is %q", got)
	}
}

func TestAFolderThatIsRemovedWhileItRunsIsNoFailure(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(slot(1), "all", `rm -r "$(dirname "$0")"`)
	w.run(slot(1))
	if diff := cmp.Diff([]string{}, w.tree()); diff != "" {
		t.Error(diff)
	}
}
