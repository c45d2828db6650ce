package spool_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/spool"
)

// runnerProcess names the variable that makes the test binary a run of slot 1 of a spool, which
// tests can kill.
const runnerProcess = "PRESCIENT_TEST_SPOOL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runnerProcess); dir != "" {
		os.Exit(runProcess(dir))
	}
	os.Exit(m.Run())
}

// runProcess runs slot 1 until it is done.
func runProcess(dir string) int {
	s, err := spool.Open(spool.Config{Dir: dir, Now: func() time.Time { return slot(1) }})
	if err == nil {
		_, err = s.Run(context.Background(), false)
	}
	if err != nil && !errors.Is(err, spool.ErrHeld) {
		slog.Error("run", "error", err)
		return 1
	}
	return 0
}

// noon is when every test begins.
var noon = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// slot returns the n-th slot after noon.
func slot(n int) time.Time { return grid.Default.Add(noon, n) }

// world is a spool of its own, a clock that a test steps by hand, and a directory in which
// executables leave traces.
type world struct {
	*replay.Clock
	t     testing.TB
	dir   string
	trace string
}

func setup(t testing.TB) *world {
	t.Helper()
	return &world{t: t, dir: t.TempDir(), trace: t.TempDir(), Clock: replay.NewClock(noon)}
}

// open returns the spool, with changes to its configuration.
func (w *world) open(change ...func(*spool.Config)) *spool.Spool {
	w.t.Helper()
	cfg := spool.Config{Dir: w.dir, Now: w.Now, Grace: time.Second, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	s, err := spool.Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// path is where an executable of a slot is.
func (w *world) path(slot time.Time, name string) string {
	return filepath.Join(w.dir, slot.Format("0601021504"), name)
}

// put drops a script into a slot, as people do it by hand. In it $T is the directory of traces.
func (w *world) put(slot time.Time, name, script string) {
	w.t.Helper()
	w.write(w.path(slot, name), fmt.Sprintf("#!/bin/sh\nT='%s'\n%s\n", w.trace, script), 0o755)
}

// write keeps parallel tests from forking meanwhile: a child that has the file open makes it "text
// file busy".
func (w *world) write(path, content string, mode fs.FileMode) {
	w.t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode))
	if err != nil {
		w.t.Fatal(err)
	}
}

// run steps the clock to an instant and runs its slot. It returns "state name" for each file, and
// ": problem" if it has one.
func (w *world) run(at time.Time, change ...func(*spool.Config)) []string {
	w.t.Helper()
	w.Set(at)
	files, err := w.open(change...).Run(w.t.Context(), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return told(files)
}

// catchUp catches up and runs the current slot.
func (w *world) catchUp() []string {
	w.t.Helper()
	files, err := w.open().Run(w.t.Context(), true)
	if err != nil {
		w.t.Fatal(err)
	}
	return told(files)
}

func told(files []spool.File) []string {
	list := []string{}
	for _, f := range files {
		list = append(list, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", f.State, f.Name, f.Problem), ": "))
	}
	return list
}

// list returns what waits, as "12:15 missed name".
func (w *world) list() []string {
	w.t.Helper()
	files, err := w.open().Files()
	if err != nil {
		w.t.Fatal(err)
	}
	list := []string{}
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s %s %s", f.Slot.Format("15:04"), f.State, f.Name))
	}
	return list
}

// read returns the content of a file; of one that does not exist it is empty.
func (w *world) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// traces counts the lines of a file of traces.
func (w *world) traces(name string) map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(w.read(filepath.Join(w.trace, name))) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}

// tree lists every file of the spool but the lock and the output, as "12:15/name" or
// "done/12:15/name".
func (w *world) tree() []string {
	w.t.Helper()
	list := []string{}
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		switch name := strings.TrimPrefix(path, w.dir+"/"); {
		case err != nil:
			return err
		case name == "output":
			return filepath.SkipDir
		case !entry.IsDir() && name != ".lock":
			list = append(list, regexp.MustCompile(`300301(\d\d)(\d\d)`).ReplaceAllString(name, "$1:$2"))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// output returns what the check of a file in a slot has written, and what became of it.
func (w *world) output(slot time.Time, name string) string {
	return w.read(filepath.Join(w.dir, "output", slot.Format("0601021504"), name))
}

// start starts a run of slot 1 as a process of its own.
func (w *world) start() *exec.Cmd {
	w.t.Helper()
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), runnerProcess+"="+w.dir)
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// eventually waits until something is so.
func (w *world) eventually(what string, shown func() bool) {
	w.t.Helper()
	await.True(w.t, what, shown)
}
