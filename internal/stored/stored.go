// Package stored writes events into tables and reads them: the outbox, and the dead letters.
package stored

import (
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs/event"
)

// Columns returns events as one array for each column: id, source, type, subject, time, published_at
// and data. An empty text stands for null.
func Columns(events []event.Event) []any {
	return pg.Columns(events, func(e event.Event) []string {
		return []string{e.ID, e.Source, e.Type, e.Subject, timestamp(e.Time), timestamp(e.PublishedAt), string(e.Data)}
	})
}

// timestamp returns an instant as the database reads it, or "" for the zero time.
func timestamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return string(pq.FormatTimestamp(at.UTC()))
}

// Into returns the destinations for the columns of an event, in the order of Columns.
func Into(e *event.Event) []any {
	return []any{&e.ID, &e.Source, &e.Type, &e.Subject, pg.UTC(&e.Time), pg.UTC(&e.PublishedAt), (*[]byte)(&e.Data)}
}
