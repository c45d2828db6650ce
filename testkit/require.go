package testkit

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

// Waiting returns what waits, of any job, in the order of its slots.
func (k *Kit) Waiting() []jobs.FutureJob {
	k.t.Helper()
	rows, err := admin.New(k.Client).List(k.t.Context(), k.DB, admin.Filter{Limit: math.MaxInt32})
	k.must(err)
	return rows
}

// Ended returns what has ended, of any job, the oldest first.
func (k *Kit) Ended() []admin.HistoryRow {
	k.t.Helper()
	rows, err := admin.New(k.Client).History(k.t.Context(), k.DB, admin.HistoryFilter{Limit: math.MaxInt32})
	k.must(err)
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

// RequireWaiting ends the test unless a check of the key waits for the first slot at or after an instant; the zero
// time: for any. It returns the row, with its counts and payload. The failure tells the row's story.
func (k *Kit) RequireWaiting(key jobs.Key, at time.Time) jobs.FutureJob {
	k.t.Helper()
	row, found := k.find(key)
	slot := at
	if !at.IsZero() {
		slot = k.Client.Grid().Ceil(at)
	}
	switch {
	case !found:
		k.t.Fatalf("%s does not wait\n%s", key, k.story(key))
	case !at.IsZero() && !row.NextCheckAt.Equal(slot):
		k.t.Fatalf("%s waits for %s, not for %s\n%s", key, instant(row.NextCheckAt), instant(slot), k.story(key))
	}
	return row
}

// RequireNotWaiting ends the test when a check of the key waits.
func (k *Kit) RequireNotWaiting(key jobs.Key) {
	k.t.Helper()
	if row, found := k.find(key); found {
		k.t.Fatalf("%s waits for %s\n%s", key, instant(row.NextCheckAt), k.story(key))
	}
}

// RequireEnded ends the test unless nothing of the key waits, and its last check to end did so with an outcome. It
// returns that row, with its slot, counts and error. The failure tells the row's story.
func (k *Kit) RequireEnded(key jobs.Key, outcome jobs.Outcome) admin.HistoryRow {
	k.t.Helper()
	k.RequireNotWaiting(key)
	rows, err := admin.New(k.Client).EntityHistory(k.t.Context(), k.DB, key.EntityName, key.EntityKey)
	k.must(err)
	var last admin.HistoryRow
	for _, row := range rows {
		if row.Key() == key {
			last = row
		}
	}
	if last.Outcome != outcome {
		k.t.Fatalf("%s has not ended as %s\n%s", key, outcome, k.story(key))
	}
	return last
}

// find returns the row that waits.
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

// story is what is known of a key, or where there is nothing, what else waits: a misspelt one is the usual mistake.
func (k *Kit) story(key jobs.Key) string {
	k.t.Helper()
	events, err := admin.New(k.Client).Timeline(k.t.Context(), k.DB, key)
	k.must(err)
	if len(events) == 0 {
		return fmt.Sprintf("it is %s; nobody ever asked for it; %s", instant(k.Now()), k.waits())
	}
	var text strings.Builder
	fmt.Fprintf(&text, "it is %s; its story:", instant(k.Now()))
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

// waits names what waits, the first of it.
func (k *Kit) waits() string {
	k.t.Helper()
	const enough = 10
	rows, err := admin.New(k.Client).List(k.t.Context(), k.DB, admin.Filter{Limit: enough})
	k.must(err)
	if len(rows) == 0 {
		return "nothing waits"
	}
	text := "what waits:"
	for _, row := range rows {
		text += fmt.Sprintf("\n  slot %s  %s", instant(row.NextCheckAt), row.Key())
	}
	if len(rows) == enough {
		text += "\n  ..."
	}
	return text
}

func instant(at time.Time) string { return at.Format(time.RFC3339Nano) }
