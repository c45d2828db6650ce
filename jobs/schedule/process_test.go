package schedule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A run as a process of its own, which can be killed: the test binary itself, told by these
// variables which database to work on and which file to publish to.
const (
	publisherProcess = "PRESCIENT_TEST_SCHEDULE_DATABASE"
	publisherFile    = "PRESCIENT_TEST_SCHEDULE_FILE"
)

// hanging appends events to a file, and then never returns: its events are published, and nobody
// has heard of it.
type hanging struct{ file string }

func (h hanging) Publish(_ context.Context, events []event.Event) error {
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, e := range events {
		fmt.Fprintln(f, e.ID)
	}
	if err := f.Close(); err != nil {
		return err
	}
	select {}
}

func (hanging) Close() error { return nil }

// publishProcess runs slot 1.
func publishProcess(url, file string) int {
	ctx := context.Background()
	db, err := pgsql.Open(ctx, url)
	if err != nil {
		slog.Error("open", "error", err)
		return 1
	}
	registry := jobs.NewRegistry()
	schedule.Register(registry, &schedule.PublishConfig{Publisher: hanging{file}})
	runner, err := slots.NewRunner(ctx, slots.Config{
		DB: db, Registry: registry, Lease: time.Second, Now: func() time.Time { return slot(1) },
	})
	if err != nil {
		slog.Error("new runner", "error", err)
		return 1
	}
	result, err := runner.Run(ctx, slot(1))
	if err != nil {
		slog.Error("run", "error", err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
	return 0
}

func TestAProcessKilledBetweenPublishingAndItsCommitLosesNothingAndRepeatsTheSameIDs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const schedules = 30
	var want []string
	for i := range schedules {
		s := every(fmt.Sprintf("s%02d", i))
		w.create(s)
		for _, minute := range []int{5, 10, 15} {
			want = append(want, fmt.Sprintf("%s-%d", s.ID, noon.Add(time.Duration(minute)*time.Minute).Unix()))
		}
	}
	file := t.TempDir() + "/published"
	victim := pgtest.StartProcess(t, publisherProcess+"="+w.url, publisherFile+"="+file)
	first := func() []string {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		return strings.Fields(string(text))
	}
	w.eventually("every event to be published", func() bool { return len(first()) == len(want) })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()

	again := &memory{}
	w.to = again
	var result slots.Result
	w.eventually("the lease of the killed process to end", func() bool {
		result = w.run(slot(1))
		return result.State == slots.StateDone
	})
	if result.Rescheduled != schedules {
		t.Errorf("the run after it: %+v", result)
	}
	var repeated []string
	for _, e := range again.events {
		repeated = append(repeated, e.ID)
	}
	sameIDs(t, want, first())
	sameIDs(t, want, repeated)
	// What was repeated is behind them: the next slot has its own events alone.
	w.run(slot(2))
	if got := times(again.of("s00")); got != "12:05 12:10 12:15 12:20 12:25 12:30" {
		t.Errorf("published %s", got)
	}
}
