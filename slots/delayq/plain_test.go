package delayq

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/await"
)

func TestAQueueIsNotRunWithoutAFunction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	defer w.queue.Close()
	for name, run := range map[string]func() error{
		"Run":        func() error { return w.queue.Run(nil) },
		"RunContext": func() error { return w.queue.RunContext(t.Context(), nil) },
	} {
		ended := make(chan error, 1)
		go func() { ended <- run() }()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "run queue mail: the function is nil") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(await.Limit):
			t.Errorf("%s: the queue is run", name)
		}
	}
}

func TestTheQueueOfTwoMethodsHandsOutWhatItWasGivenUntilItIsClosed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var queue DelayQ = w.queue
	want := map[string]time.Time{}
	for data, ready := range map[string]time.Time{"past": time.Unix(1, 0), "\x00\xff": w.now().Add(1500 * time.Millisecond), "": w.now()} {
		want[data] = ready.UTC()
		if err := queue.Delay(ready, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := map[string]time.Time{}
	failed := false
	ended := make(chan error, 1)
	go func() {
		ended <- queue.Run(func(at time.Time, data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			if !failed {
				failed = true
				return errors.New("the first call fails, and is made again")
			}
			got[string(data)] = at
			return nil
		})
	}()
	eventually(t, "every item to end", func() bool { return w.ended("done") == len(want) })
	w.queue.Close()
	w.queue.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := queue.Delay(w.now(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed queue takes an item: %v", err)
	}
}
