package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file"
)

// A process of its own publishes when these are set.
const (
	envURL   = "PRESCIENT_TEST_EVENTS_TO"    // where to
	envBy    = "PRESCIENT_TEST_EVENTS_BY"    // the subject of its events
	envLimit = "PRESCIENT_TEST_EVENTS_LIMIT" // how long it may make a file, in bytes
)

const batches, perBatch = 8, 50

func TestMain(m *testing.M) {
	if to := os.Getenv(envURL); to != "" {
		if err := publishAll(to, os.Getenv(envBy), os.Getenv(envLimit)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func publishAll(to, subject, limit string) error {
	if limit != "" {
		most, err := strconv.ParseUint(limit, 10, 64)
		if err != nil {
			return err
		}
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	publisher, err := event.Open(context.Background(), to, event.Config{})
	if err != nil {
		return err
	}
	for batch := range batches {
		if err := publisher.Publish(context.Background(), eventsOf(subject, batch*perBatch, perBatch)); err != nil {
			return err
		}
	}
	return publisher.Close()
}

// process returns a process that publishes all batches.
func process(t *testing.T, to, subject string, limit int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), envURL+"="+to, envBy+"="+subject)
	if limit > 0 {
		cmd.Env = append(cmd.Env, envLimit+"="+strconv.Itoa(limit))
	}
	return cmd
}

// eventsOf returns n events of a subject, from a number on, of about 700 bytes.
func eventsOf(subject string, from, n int) []event.Event {
	at := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	data := json.RawMessage(`"` + strings.Repeat("x", 500) + `"`)
	var list []event.Event
	for i := from; i < from+n; i++ {
		list = append(list, event.Event{ID: fmt.Sprintf("%s-%d", subject, i), Source: "/shop", Type: "t", Subject: subject, Time: at, Data: data})
	}
	return list
}

// ids returns the ids of the lines, in order for each subject, and the lines that are no event.
func ids(text []byte) (bySubject map[string][]string, bad []string) {
	bySubject = map[string][]string{}
	for line := range bytes.Lines(text) {
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			bad = append(bad, string(line))
			continue
		}
		bySubject[e.Subject] = append(bySubject[e.Subject], e.ID)
	}
	return bySubject, bad
}

func idsOf(events []event.Event) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.ID)
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// setup opens a publisher to a new file.
func setup(t *testing.T) (publisher event.Publisher, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a b%.jsonl")
	publisher, err := event.Open(t.Context(), "file://"+strings.NewReplacer(" ", "%20", "%", "%25").Replace(path), event.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := publisher.Close(); err != nil {
			t.Error(err)
		}
	})
	return publisher, path
}

func publish(t *testing.T, publisher event.Publisher, events []event.Event) {
	t.Helper()
	if err := publisher.Publish(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

func TestEventsAreLinesOfTheFileInOrder(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	all := eventsOf("a", 0, 5)
	all[3].Data = json.RawMessage("{\n\"a\":\n\"line\\nbreaks\"\n}")
	publish(t, publisher, all[:2])
	publish(t, publisher, nil)
	publish(t, publisher, all[2:])
	var want []byte
	for _, e := range all {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		want = append(append(want, line...), '\n')
	}
	if diff := cmp.Diff(string(want), string(read(t, path))); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o137 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestTheFileIsThereBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	if _, path := setup(t); len(read(t, path)) != 0 {
		t.Error("it is not empty")
	}
}

func TestHalfALineDoesNotSwallowTheNextEvent(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	publish(t, publisher, eventsOf("a", 0, 2))
	if err := os.Truncate(path, int64(len(read(t, path))-10)); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	publish(t, publisher, eventsOf("a", 2, 2))
	got, bad := ids(read(t, path))
	if diff := cmp.Diff([]string{"a-0", "a-2", "a-3"}, got["a"]); diff != "" || len(bad) != 1 {
		t.Errorf("%s; %d bad lines", diff, len(bad))
	}
}

func TestAFileThatWasRenamedOrRemovedIsMadeAnew(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	publish(t, publisher, eventsOf("a", 0, 1))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	publish(t, publisher, eventsOf("a", 1, 1))
	for name, want := range map[string]string{path + ".1": "a-0", path: "a-1"} {
		if got, bad := ids(read(t, name)); len(bad) != 0 || len(got["a"]) != 1 || got["a"][0] != want {
			t.Errorf("%s has %v and %q", name, got, bad)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	publish(t, publisher, eventsOf("a", 2, 1))
	if got, _ := ids(read(t, path)); len(got["a"]) != 1 || got["a"][0] != "a-2" {
		t.Errorf("after a removal: %v", got)
	}
}

func TestLinesOfSeveralProcessesDoNotMix(t *testing.T) {
	t.Parallel()
	_, path := setup(t)
	path = filepath.Join(filepath.Dir(path), "shared.jsonl")
	var wg sync.WaitGroup
	for _, subject := range []string{"a", "b", "c"} {
		wg.Go(func() {
			if out, err := process(t, "file://"+path, subject, 0).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	got, bad := ids(read(t, path))
	if len(bad) != 0 {
		t.Errorf("%d bad lines, the first %.100q", len(bad), bad[0])
	}
	for _, subject := range []string{"a", "b", "c"} {
		if diff := cmp.Diff(idsOf(eventsOf(subject, 0, batches*perBatch)), got[subject]); diff != "" {
			t.Errorf("%s: %s", subject, diff)
		}
	}
}

// lockedByAnother returns a publisher to a file that another writer has locked.
func lockedByAnother(t *testing.T) (publisher event.Publisher, path string, other *os.File) {
	t.Helper()
	publisher, path = setup(t)
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return publisher, path, other
}

// besideAnother publishes an event while another writer has the file locked.
func besideAnother(t *testing.T) (path string, other *os.File, done <-chan error) {
	t.Helper()
	publisher, path, other := lockedByAnother(t)
	published := make(chan error, 1)
	go func() { published <- publisher.Publish(t.Context(), eventsOf("a", 0, 1)) }()
	return path, other, published
}

func TestAWriterWaitsForTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	_, other, done := besideAnother(t)
	select {
	case err := <-done:
		t.Errorf("it has written although another writes: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := other.Close(); err != nil { // as its death does
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAWriterThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	publisher, path, other := lockedByAnother(t)
	defer func() { _ = other.Close() }()
	calls := map[string]func(ctx context.Context) error{
		"publish": func(ctx context.Context) error { return publisher.Publish(ctx, eventsOf("a", 0, 1)) },
		"open": func(ctx context.Context) error {
			_, err := event.Open(ctx, "file://"+path, event.Config{})
			return err
		},
	}
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			if name == "publish" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: it still waits", name)
		}
	}
}

func TestAFileThatIsRemovedWhileItsLockIsWaitedForIsMadeAnew(t *testing.T) {
	t.Parallel()
	path, other, done := besideAnother(t)
	for opened := 0; opened < 2; { // until the writer has opened the file, too, and so waits for its lock
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil || len(links) == 0 {
			break
		}
		opened = 0
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && to == path {
				opened++
			}
		}
	}
	if err := errors.Join(os.Remove(path), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, _ := ids(read(t, path)); len(got["a"]) != 1 {
		t.Errorf("it is told to be written, and the file has %v", got)
	}
}

func TestABatchThatDoesNotFitIsAnErrorAndTheNextOneIsWhole(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	shared := filepath.Join(filepath.Dir(path), "shared.jsonl")
	out, err := process(t, "file://"+shared, "cut", 100_000).CombinedOutput()
	want := "append events: write " + shared + ": file too large"
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), want) {
		t.Fatalf("%v: %s", err, out)
	}
	if text := read(t, shared); len(text) != 100_000 || text[len(text)-1] == '\n' {
		t.Fatalf("the last line of %d bytes is whole", len(text))
	}
	if err := os.Rename(shared, path); err != nil {
		t.Fatal(err)
	}
	publish(t, publisher, eventsOf("a", 0, 2))
	got, bad := ids(read(t, path))
	if diff := cmp.Diff([]string{"a-0", "a-1"}, got["a"]); diff != "" || len(bad) != 1 {
		t.Errorf("%s; %d bad lines", diff, len(bad))
	}
	if whole := got["cut"]; len(whole) < perBatch || whole[0] != "cut-0" {
		t.Errorf("of the batches that fit there is %v", whole)
	}
}

func TestStandardOutputHasTheLines(t *testing.T) {
	t.Parallel()
	cmd := process(t, "stdout:", "a", 0)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	got, bad := ids(out.Bytes())
	if diff := cmp.Diff(idsOf(eventsOf("a", 0, batches*perBatch)), got["a"]); diff != "" || len(bad) != 0 {
		t.Errorf("%s; bad lines: %.100q", diff, bad)
	}
}

func TestAnEventThatIsInvalidKeepsBackThoseOfItsSubjectAlone(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	batch := append(eventsOf("a", 0, 3), eventsOf("b", 0, 1)...)
	batch[1].Type = ""
	loose := eventsOf("", 0, 2)
	loose[0].Source = ""
	batch = append(batch, loose...)
	err := publisher.Publish(t.Context(), batch)
	errs := event.Errors(err, len(batch))
	for i, want := range []string{"", `encode event "a-1"`, event.ErrBlocked.Error(), "", `encode event "-0"`, ""} {
		if got := errs[i]; (got == nil) != (want == "") || got != nil && !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%s: %v, want %s", batch[i].ID, got, want)
		}
	}
	got, bad := ids(read(t, path))
	if diff := cmp.Diff(map[string][]string{"a": {"a-0"}, "b": {"b-0"}, "": {"-1"}}, got); diff != "" || len(bad) != 0 {
		t.Errorf("%s; %q", diff, bad)
	}
}

func TestNothingIsWrittenAfterTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	publisher, path := setup(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	errStopped := errors.New("stopped by a test")
	cancel(errStopped)
	if err := publisher.Publish(ctx, eventsOf("a", 0, 1)); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	if text := read(t, path); len(text) != 0 {
		t.Errorf("%s", text)
	}
}

func TestABadURLIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"file:events.jsonl":               "must be file:// and an absolute path",
		"file://events.jsonl":             "must be file:// and an absolute path",
		"file://example.com" + dir + "/e": "must be file:// and an absolute path",
		"file://me@" + dir + "/e":         "must be file:// and an absolute path",
		"file://" + dir + "/e?mode=0600":  "must be file:// and an absolute path",
		"file://" + dir + "/e#f":          "must be file:// and an absolute path",
		"file:":                           "must be file:// and an absolute path",
		"file://" + dir:                   "is a directory",
		"file://" + fifo:                  "is no regular file; stdout: is the URL of standard output",
		"file:///dev/null":                "is no regular file",
		"stdout://host":                   "must be stdout: and nothing else",
		"stdout:x":                        "must be stdout: and nothing else",
		"stdout:?a":                       "must be stdout: and nothing else",
	} {
		if _, err := event.Open(t.Context(), to, event.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
	if _, err := event.Open(t.Context(), "file://localhost"+dir+"/e", event.Config{}); err != nil {
		t.Error(err)
	}
}

func TestEventsAreWrittenOnceTheMissingDirectoryIsThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	publisher, err := event.Open(t.Context(), "file://"+dir+"/events.jsonl", event.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := eventsOf("a", 0, 1)
	if err := publisher.Publish(t.Context(), events); err == nil || !strings.Contains(err.Error(), "Create the directory "+dir+",") {
		t.Errorf("published without a directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	publish(t, publisher, events)
	if got, bad := ids(read(t, filepath.Join(dir, "events.jsonl"))); len(bad) > 0 || len(got["a"]) != 1 {
		t.Errorf("the file has %v, %v", got, bad)
	}
}
