// Package periodic reads and writes the rows that stand for functions on a crontab; see jobs.Registry.Periodic.
package periodic

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/prescient-go/prescient/internal/journal"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
)

// Entity is the entity name of the row. Its entity key is the name of the job, and it has no item key.
const Entity = "periodic"

// Stamp is the payload of the row.
type Stamp struct {
	// First is the first instant that the function was called for in checks of the row. Zero: it is Instant, or the
	// function was not called.
	First time.Time `json:"first,omitzero"` // UTC
	// Instant is the one that the row waits for; in history, the latest one that the function was called for.
	Instant time.Time `json:"instant"` // UTC
	Crontab string    `json:"crontab"`
	Zone    string    `json:"zone,omitempty"` // empty: the one of Crontab, or UTC
	// Failed is the error of the call for the instant after Instant, in history. The row of that instant has it, too.
	Failed string `json:"failed,omitempty"`
}

// Read returns the stamp of a row. An application may have written any payload: the stamp is then zero in part.
func Read(payload json.RawMessage) Stamp {
	var s Stamp
	if json.Unmarshal(payload, &s) != nil {
		return Stamp{}
	}
	return s
}

// Payload returns the payload of a row.
func (s Stamp) Payload() json.RawMessage {
	text, _ := json.Marshal(s) // never fails
	return text
}

// Parse parses the crontab of a function.
func Parse(text, zone string) (crontab.Crontab, error) {
	return crontab.Parse(text, zone, time.Unix(0, 0)) // the first instant of "@every"
}

// mostInstants bounds the result of Instants.
const mostInstants = 1000

// Instants returns the instants (UTC) that a function was called for in checks of a row that has ended: all of them, or
// the latest 1,000. payload is that of the row in history.
func Instants(payload json.RawMessage) []time.Time {
	s := Read(payload)
	if s.Instant.IsZero() {
		return nil
	}
	every, err := Parse(s.Crontab, s.Zone)
	if err != nil || s.First.IsZero() {
		return []time.Time{s.Instant.UTC()}
	}
	return every.Latest(mostInstants, s.First.Add(-time.Second), s.Instant)
}

// Row is a row that waits.
type Row struct {
	JobExec string
	Due     bool // the slot has begun
	Ahead   bool // the slot has not begun, and the row was enqueued or moved while the clock was ahead
	Stamp   Stamp
}

// Differs reports whether a row waits by another crontab or zone than a function has.
func (r Row) Differs(crontab, zone string) bool {
	return r.Stamp.Crontab != crontab || r.Stamp.Zone != zone
}

// Rows returns the rows of the functions of all binaries, sorted by job. clock is the present of a replay; nil asks the
// database.
func Rows(ctx context.Context, db tx.DB, schema pg.Schema, clock any) ([]Row, error) {
	return tx.Collect(ctx, db, pg.PeriodicRows.In(schema), []any{Entity, clock}, Scan)
}

// step is by how much a clock may step back, as servers do when they synchronize. Then no row is ahead.
const step = time.Minute

// Scan reads a row of pg.PeriodicRows.
func Scan(row *sql.Rows, r *Row) error {
	var now, slot, enqueued time.Time
	var last string
	var payload []byte
	err := row.Scan(&r.JobExec, &now, &slot, &enqueued, &last, &payload)
	moved, _ := journal.ParseMove(last)
	r.Due = !slot.After(now)
	r.Ahead = !r.Due && (enqueued.Sub(now) > step || moved.At.Sub(now) > step)
	r.Stamp = Read(payload)
	return err
}
