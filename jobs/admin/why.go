package admin

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
)

// Why tells what happened to the checks of an entity, and what keeps those that wait.
type Why struct {
	Entries []TimelineEntry // see Client.Timeline
	Now     time.Time       // decides which slots are due
	Binary  string          // how to call the commands that a sentence advises; empty: prescient
}

// Why returns the timeline of an entity, which its String tells in the sentences of the command why. It reads in a
// transaction of its own on the client's pool. An entity without a check has no entries.
func (c *Client) Why(ctx context.Context, entityName, entityKey string) (Why, error) {
	entries, err := c.Timeline(ctx, jobs.OwnTx(c.jobs.Pool()), jobs.Key{EntityName: entityName, EntityKey: entityKey})
	return Why{Entries: entries, Now: c.jobs.Now()}, err
}

// String returns the lines, each with its end.
func (w Why) String() string {
	var text strings.Builder
	for _, line := range w.Lines() {
		fmt.Fprintln(&text, line)
	}
	return text.String()
}

// Lines returns a heading for each row, and below it the instant and the sentence of each entry. A line is empty
// between two rows. Many checks that follow each other and only asked for another one are three lines.
func (w Why) Lines() (lines []string) {
	again := func(i int) (int64, bool) {
		return w.Entries[i].ID, w.Entries[i].What == "next" && len(w.Entries[i].Fired) == 0
	}
	for i, last := range spoken.Stretches(len(w.Entries), again) {
		e := w.Entries[i]
		if i == 0 || e.ID != w.Entries[i-1].ID {
			if i > 0 {
				lines = append(lines, "")
			}
			heading := e.JobExec
			if e.ItemKey != "" {
				heading += ", item " + e.ItemKey
			}
			lines = append(lines, strings.Map(plain.Printable, heading)+":")
		}
		at := strings.Repeat(" ", len("2026-03-01T13:05:00Z"))
		if !e.At.IsZero() {
			at = spoken.Instant(e.At)
		}
		text := e.Sentence(w.Now, cmp.Or(w.Binary, "prescient"))
		if last > i {
			text = spoken.Again(last-i+1, w.Entries[last].Slot)
		}
		lines = append(lines, at+"  "+strings.Map(plain.Printable, text))
	}
	return lines
}
