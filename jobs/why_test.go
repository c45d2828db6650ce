package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestWhyTellsInSentencesWhatHappenedToAnEntity(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	now := time.Date(2030, time.March, 1, 12, 1, 0, 0, time.UTC)
	client, err := jobs.NewClient(t.Context(), db, jobs.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	operator := admin.New(client)
	if nothing, err := operator.Why(t.Context(), "orders", "42"); err != nil || nothing.String() != "" {
		t.Errorf("before there is a check: %q, %v", nothing, err)
	}
	_, err = client.EnqueueNow(t.Context(), jobs.Request{
		JobExec: "order.late", EntityName: "orders", EntityKey: "42", ItemKey: "first", CheckAt: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Pause(t.Context(), db, "order.late"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * time.Hour)
	why, err := operator.Why(t.Context(), "orders", "42")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(why.String(), "\n")
	want := []string{
		"order.late, item first:",
		"requested by ",
		"                      waits for slot 2030-03-01T13:15:00Z, due for 22h46m, but its job is paused: prescient jobs resume order.late",
		"",
	}
	if len(lines) != len(want) {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || i != 1 && line != want[i] {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
	if !strings.HasSuffix(lines[1], "for 2030-03-01T13:01:00Z: slot 2030-03-01T13:15:00Z") {
		t.Errorf("%q", lines[1])
	}
}
