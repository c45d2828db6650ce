package spool_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/spool"
)

const hello = "#!/bin/sh\necho hello\n"

// add adds an executable and returns its slot.
func (w *world) add(at time.Time, name, content string) (time.Time, error) {
	w.t.Helper()
	return w.open().Add(w.t.Context(), at, spool.Executable{Name: name, Content: strings.NewReader(content)})
}

func TestAnExecutableGoesToTheSlotAtOrAfterTheInstantAndNeverToOneThatHasBegun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		now, at  time.Time
		want     time.Time
		wantFile string
	}{
		{"between two slots", noon, slot(1).Add(time.Second), slot(2), "3003011230/job"},
		{"on a slot", noon, slot(3), slot(3), "3003011245/job"},
		{"in another zone", noon, slot(3).In(time.FixedZone("east", 3600)), slot(3), "3003011245/job"},
		{"now, on a slot", noon, noon, slot(1), "3003011215/job"},
		{"now, between two slots", noon.Add(time.Minute), noon.Add(time.Minute), slot(1), "3003011215/job"},
		{"the past", noon, slot(-100), slot(1), "3003011215/job"},
	} {
		w := setup(t)
		w.Set(test.now)
		got, err := w.add(test.at, "job", hello)
		if err != nil || !got.Equal(test.want) {
			t.Errorf("%s: %s, error %v; want %s", test.name, got, err, test.want)
		}
		if w.read(filepath.Join(w.dir, test.wantFile)) != hello {
			t.Errorf("%s: it is not in %s, there is %v", test.name, test.wantFile, w.tree())
		}
		if result := w.run(test.want); result.Finished != 1 {
			t.Errorf("%s: %+v", test.name, result)
		}
	}
}

// late is content that is there when its clock has gone on, as that of a pipe may be.
type late struct {
	io.Reader
	then func()
}

func (l late) Read(p []byte) (int, error) {
	l.then()
	return l.Reader.Read(p)
}

func TestASlotThatBeginsWhileTheContentIsReadIsNoTargetAnyMore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	content := late{strings.NewReader(hello), func() { w.Set(slot(2)) }}
	got, err := w.open().Add(t.Context(), slot(1), spool.Executable{Name: "job", Content: content})
	if err != nil || !got.Equal(slot(3)) {
		t.Errorf("%s, error %v; want %s", got, err, slot(3))
	}
	if result := w.run(slot(3)); result.Finished != 1 {
		t.Errorf("%+v, there is %v", result, w.tree())
	}
}

func TestWhatCannotBeAddedIsRefusedWithTheRule(t *testing.T) {
	t.Parallel()
	g := spool.DefaultGuards()
	guards := func(change func(*spool.Guards)) spool.Guards {
		changed := g
		change(&changed)
		return changed
	}
	for _, test := range []struct {
		want    string
		name    string
		content string
		at      time.Time
		guards  spool.Guards
	}{
		{want: "name: must not be empty", name: ""},
		{want: "name: must not begin with a dot: hidden files are not run", name: ".job"},
		{want: "name: must not contain a slash", name: "a/../../b"},
		{want: "name: must be at most 200 bytes, is 201", name: strings.Repeat("x", 201)},
		{want: "name: must be UTF-8 without control characters", name: "a\nb"},
		{want: "name: must be UTF-8 without control characters", name: "a\xff"},
		{want: "content: must not be empty", name: "job", content: "-"},
		{want: "content: must be a program, or a script whose first line names its interpreter, as #!/bin/sh does", name: "job", content: "echo hello\n"},
		{want: "at: must be within the horizon, 5 years from now", name: "job", at: noon.AddDate(6, 0, 0)},
		{want: "at: must be before the end of 2099: the name of a slot has two digits for the year", name: "job", at: noon.AddDate(70, 0, 0)},
		{want: "max_checks: must be at least 1", name: "job", guards: guards(func(g *spool.Guards) { g.MaxChecks = 0 })},
		{want: "timeout: must be more than 0", name: "job", guards: guards(func(g *spool.Guards) { g.Timeout = 0 })},
		{want: "horizon: must be more than 0", name: "job", guards: guards(func(g *spool.Guards) { g.Horizon = 0 })},
		{want: "retry: must not be negative", name: "job", guards: guards(func(g *spool.Guards) { g.Retry = -1 })},
		{want: "deadline: must not be negative; 0 is none", name: "job", guards: guards(func(g *spool.Guards) { g.Deadline = -1 })},
		{want: "misfire: must be run, defer or skip", name: "job", guards: guards(func(g *spool.Guards) { g.Misfire = "later" })},
	} {
		w := setup(t)
		e := spool.Executable{Name: test.name, Content: strings.NewReader(hello), Guards: test.guards}
		at := slot(1)
		if test.content != "" {
			e.Content = strings.NewReader(strings.TrimPrefix(test.content, "-"))
		}
		if !test.at.IsZero() {
			at = test.at
		}
		_, err := w.open().Add(t.Context(), at, e)
		field, ok := errors.AsType[*jobs.FieldError](err)
		if !ok || field.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
		if left := w.tree(); len(left) != 0 {
			t.Errorf("%s: left behind: %v", test.want, left)
		}
	}
}

func TestAnInstantMustBeGiven(t *testing.T) {
	t.Parallel()
	_, err := setup(t).add(time.Time{}, "job", hello)
	if field, ok := errors.AsType[*jobs.FieldError](err); !ok || field.Field != "at" {
		t.Errorf("error %v", err)
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
	if result := w.run(slot(1)); result.Finished != 1 {
		t.Errorf("%+v", result)
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
	if diff := cmp.Diff([]string{"3003011215", "3003011215/.job.json", "3003011215/job", "3003011230", "3003011230/.job.json", "3003011230/job"}, w.tree()); diff != "" {
		t.Error(diff)
	}
}

func TestAnAddThatFailsHalfWayLeavesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	broken := errors.New("the pipe broke")
	content := io.MultiReader(strings.NewReader("#!/bin/sh\n"+strings.Repeat("# padding\n", 1000)), iotest.ErrReader(broken))
	if _, err := w.open().Add(t.Context(), slot(1), spool.Executable{Name: "job", Content: content}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if left := w.tree(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// One that was killed has left its copy, which the next removes; one that goes on keeps it.
	w.write(filepath.Join(w.dir, ".add-1"), "#!/bin/", 0o600)
	reader, writer := io.Pipe()
	added := make(chan error)
	go func() {
		_, err := w.open().Add(t.Context(), slot(1), spool.Executable{Name: "slow", Content: reader})
		added <- err
	}()
	if _, err := io.WriteString(writer, hello+strings.Repeat("#", 1000)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.add(slot(1), "quick", hello); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Close(), <-added); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"12:15 waiting quick", "12:15 waiting slow"}, w.list()); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, ".add-1")); err == nil {
		t.Error("what the killed one left is still there")
	}
}

func TestADirectoryThatIsNoSpoolIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	open := w.t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.trace, "file"), "", 0o644)
	seconds, err := grid.New(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]spool.Config{
		`directory "": want a path`:           {},
		"make it with: mkdir -m 700 /no/such": {Dir: "/no/such"},
		"is no directory":                     {Dir: filepath.Join(w.trace, "file")},
		"everybody may write to " + open:      {Dir: open},
		"must be whole minutes":               {Dir: w.dir, Grid: seconds},
		"-1 workers":                          {Dir: w.dir, Workers: -1},
	} {
		if _, err := spool.Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestHistoryIsLimitedAndTheNewestSlotComesFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for n := range 4 {
		w.put(slot(n), "job", "exit 0")
		w.run(slot(n))
	}
	list, err := w.open().History(3)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Slot.Format("15:04"))
	}
	if diff := cmp.Diff([]string{"12:45", "12:30", "12:15"}, got); diff != "" {
		t.Error(diff)
	}
}
