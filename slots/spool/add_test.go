package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/spool"
)

const hello = "#!/bin/sh\necho hello\n"

// add adds an executable and returns its slot. Like write, it keeps parallel tests from forking
// meanwhile.
func (w *world) add(at time.Time, name, content string) (time.Time, error) {
	w.t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return w.open().Add(name, []byte(content), at)
}

func TestAnExecutableGoesToTheSlotAtOrAfterTheInstantAndNeverToOneThatHasBegun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		now, at time.Time
		want    time.Time
		file    string
	}{
		{"between two slots", noon, slot(1).Add(time.Second), slot(2), "12:30/job"},
		{"on a slot", noon, slot(3), slot(3), "12:45/job"},
		{"in another zone", noon, slot(3).In(time.FixedZone("east", 3600)), slot(3), "12:45/job"},
		{"now, on a slot", noon, noon, slot(1), "12:15/job"},
		{"now, between two slots", noon.Add(time.Minute), noon.Add(time.Minute), slot(1), "12:15/job"},
		{"the past", noon, slot(-100), slot(1), "12:15/job"},
	} {
		w := setup(t)
		w.Set(test.now)
		got, err := w.add(test.at, "job", hello)
		if err != nil || !got.Equal(test.want) {
			t.Errorf("%s: %s, error %v; want %s", test.name, got, err, test.want)
		}
		if diff := cmp.Diff([]string{test.file}, w.tree()); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if diff := cmp.Diff([]string{"done job"}, w.run(test.want)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestWhatCannotBeAddedIsRefusedWithTheRule(t *testing.T) {
	t.Parallel()
	const name = "name: must have 1 to 200 bytes, not begin with a dot, and have no slash, comma or control character"
	for _, test := range []struct {
		want    string
		name    string
		content string
		at      time.Time
	}{
		{name, "", hello, slot(1)},
		{name, ".job", hello, slot(1)},
		{name, "a/../../b", hello, slot(1)},
		{name, "job,checks=1,errors=0", hello, slot(1)},
		{name, strings.Repeat("x", 201), hello, slot(1)},
		{name, "a\nb", hello, slot(1)},
		{"content: must be a program, or a script that begins with #!", "job", "", slot(1)},
		{"content: must be a program, or a script that begins with #!", "job", "echo hello\n", slot(1)},
		{"at: must be within 5 years from now", "job", hello, noon.AddDate(6, 0, 0)},
	} {
		w := setup(t)
		_, err := w.add(test.at, test.name, test.content)
		field, ok := errors.AsType[*jobs.FieldError](err)
		if !ok || field.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
		if left := w.tree(); len(left) != 0 {
			t.Errorf("%s: left behind: %v", test.want, left)
		}
	}
}

func TestAProgramNeedsNoInterpreter(t *testing.T) {
	t.Parallel()
	w := setup(t)
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.add(slot(1), "job", string(program)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"done job"}, w.run(slot(1))); diff != "" {
		t.Error(diff)
	}
}

func TestANameThatWaitsInTheSlotIsRefusedAndStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var added, taken atomic.Int32
	var adding sync.WaitGroup
	for range 10 { // at once
		adding.Go(func() {
			switch _, err := w.add(slot(1), "job", hello); {
			case err == nil:
				added.Add(1)
			case errors.Is(err, spool.ErrExists) && strings.Contains(err.Error(), "take another name or slot, or remove "+w.path(slot(1), "job")):
				taken.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	adding.Wait()
	if added.Load() != 1 || taken.Load() != 9 {
		t.Errorf("%d were added and %d refused", added.Load(), taken.Load())
	}
	if _, err := w.add(slot(2), "job", hello); err != nil {
		t.Errorf("the same name in another slot: %v", err)
	}
	if diff := cmp.Diff([]string{"12:15/job", "12:30/job"}, w.tree()); diff != "" {
		t.Error(diff)
	}
}

// An add that is killed before its link leaves its copy, which no run and no list may see.
func TestWhatAKilledAddLeavesIsNeverRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.write(filepath.Join(w.dir, ".add-1"), hello, 0o755)
	w.Set(slot(1))
	if diff := cmp.Diff([]string{}, append(w.list(), w.catchUp()...)); diff != "" {
		t.Error(diff)
	}
}

func TestADirectoryThatIsNoSpoolIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	seconds, err := grid.New(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]spool.Config{
		"dir: must be set":                    {},
		"make it by: mkdir -m 700 '/no such'": {Dir: "/no such"},
		"width: must be whole minutes":        {Dir: w.dir, Grid: seconds},
	} {
		if _, err := spool.Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
