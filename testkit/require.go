package testkit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Waiting returns the waiting rows of all jobs, in the order of their slots.
func (k *Kit) Waiting() []jobs.FutureJob {
	k.t.Helper()
	rows, err := seq.Collect(admin.New(k.Client).List(k.t.Context(), k.DB, admin.Filter{}))
	k.must(err)
	return rows
}

// Ended returns the ended rows of all jobs, the oldest first.
func (k *Kit) Ended() []admin.HistoryRow {
	k.t.Helper()
	rows, err := seq.Collect(admin.New(k.Client).History(k.t.Context(), k.DB, admin.HistoryFilter{}))
	k.must(err)
	slices.Reverse(rows)
	return rows
}

// RequireWaiting ends the test unless a check of the key waits for the first slot at or after an
// instant; with the zero time, for any slot. It returns the row, with its counts and payload. The
// failure shows the row's timeline.
func (k *Kit) RequireWaiting(key jobs.Key, at time.Time) jobs.FutureJob {
	k.t.Helper()
	row, found := k.find(key)
	slot := at
	if !at.IsZero() {
		slot = k.Client.Grid().Ceil(at)
	}
	switch {
	case !found:
		k.t.Fatalf("%s does not wait\n%s", key, k.timeline(key))
	case !at.IsZero() && !row.NextCheckAt.Equal(slot):
		k.t.Fatalf("%s waits for %s, not for %s\n%s", key, instant(row.NextCheckAt), instant(slot), k.timeline(key))
	}
	return row
}

// RequireNotWaiting ends the test if a check of the key waits.
func (k *Kit) RequireNotWaiting(key jobs.Key) {
	k.t.Helper()
	if row, found := k.find(key); found {
		k.t.Fatalf("%s waits for %s\n%s", key, instant(row.NextCheckAt), k.timeline(key))
	}
}

// RequireEnded ends the test unless no check of the key waits, and the last one ended with an
// outcome. It returns that row, with its slot, counts and error. The failure shows the row's
// timeline.
func (k *Kit) RequireEnded(key jobs.Key, outcome jobs.Outcome) admin.HistoryRow {
	k.t.Helper()
	k.RequireNotWaiting(key)
	var last admin.HistoryRow
	ended := admin.HistoryFilter{JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey}
	for row, err := range admin.New(k.Client).History(k.t.Context(), k.DB, ended) {
		k.must(err)
		if row.Key() == key {
			last = row
			break
		}
	}
	if last.Outcome != outcome {
		k.t.Fatalf("%s has not ended as %s\n%s", key, outcome, k.timeline(key))
	}
	return last
}

// find returns the waiting row of a key.
func (k *Kit) find(key jobs.Key) (jobs.FutureJob, bool) {
	k.t.Helper()
	rows, err := admin.New(k.Client).Show(k.t.Context(), k.DB, key.EntityName, key.EntityKey)
	k.must(err)
	for _, row := range rows {
		if row.Key() == key {
			return row, true
		}
	}
	return jobs.FutureJob{}, false
}

// timeline returns the timeline of a key. If there is none, it lists other waiting rows, because the
// usual mistake is a misspelt key.
func (k *Kit) timeline(key jobs.Key) string {
	k.t.Helper()
	events, err := admin.New(k.Client).Timeline(k.t.Context(), k.DB, key)
	k.must(err)
	if len(events) == 0 {
		return fmt.Sprintf("it is %s; it was never enqueued; %s", instant(k.Now()), k.waits())
	}
	var text strings.Builder
	fmt.Fprintf(&text, "it is %s; its timeline:", instant(k.Now()))
	for _, e := range events {
		fmt.Fprintf(&text, "\n  slot %s  %s", instant(e.Slot), e.What)
		if e.Error != "" {
			fmt.Fprintf(&text, ": %s", e.Error)
		}
		if e.Hindrance != "" {
			fmt.Fprintf(&text, " (%s)", e.Hindrance)
		}
	}
	return text.String()
}

// waits lists the first of the waiting rows.
func (k *Kit) waits() string {
	k.t.Helper()
	const enough = 10
	rows, next, err := admin.New(k.Client).ListPage(k.t.Context(), k.DB, admin.Filter{Limit: enough})
	k.must(err)
	if len(rows) == 0 {
		return "nothing waits"
	}
	text := "what waits:"
	for _, row := range rows {
		text += fmt.Sprintf("\n  slot %s  %s", instant(row.NextCheckAt), row.Key())
	}
	if !next.IsZero() {
		text += "\n  ..."
	}
	return text
}

func instant(at time.Time) string { return at.Format(time.RFC3339Nano) }
