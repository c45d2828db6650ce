package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	pgsql "github.com/prescient-go/prescient/sql"
)

// PeriodicEntity is the entity name of the row of a function on a crontab. Its entity key is the
// name of the job, and it has no item key.
const PeriodicEntity = "periodic"

// PeriodicKey returns the natural key of the row of a function on a crontab, such as for
// Client.Cancel or Client.Reschedule.
func PeriodicKey(job string) Key {
	return Key{JobExec: job, EntityName: PeriodicEntity, EntityKey: job}
}

// Periodic adds a function that runs at each instant of a crontab:
//
//	registry.Periodic("report.daily", "0 9 * * *", jobs.Row(report), jobs.Zone("Europe/Berlin"))
//
// Exactly one row stands for the function. It waits for the next instant, which its function gets
// as FutureJob.Instant. When the row ends, with whatever outcome, it goes to history, and a new row
// for the instant after it takes its place, in the same transaction. So each instant has a row of
// history with its outcome, its lateness and its errors, and `why periodic report.daily` tells of
// all of them.
//
// The first row is made by the first runner that knows the job, and by `migrate up`; see
// Client.EnqueuePeriodic. It waits for the first instant after that moment.
//
// The function is a check like any other, with the same options, in the shape Row or InTx. It
// returns nil when it is done with the instant, or a time at which to look again before that, at
// most MaxChecks times. After an error it is retried; once the row ends as OutcomeFailed, the next instant
// is on. An instant is run in the first slot at or after it.
//
// Instants are missed while no run takes place, and several fall into a slot that is wider than
// their distance. OnMisfire says what a check does that finds more than one: run once for the latest
// (MisfireRun, the default), once for each, oldest first (MisfireEach), or leave out those of a
// missed slot (MisfireSkip). With MisfireEach the calls of a check share its timeout: after half of
// it, the next slot takes the rest.
//
// Periodic panics like Register, and for a crontab that does not parse. Package crontab, below
// package schedule, says what one may be.
func (r *Registry) Periodic(name, crontab string, h Handler[FutureJob], opts ...Option) {
	r.add(&Definition{Name: name, Crontab: crontab}, h, opts)
}

// Zone sets the time zone of the crontab of a periodic function, by its name in the IANA database,
// such as "Europe/Berlin". Default: the zone that the crontab names with CRON_TZ, or UTC.
func Zone(name string) Option {
	return func(d *Definition) {
		must(d, d.Crontab != "", "Zone(%q): only a periodic function has a zone", name)
		d.Zone = name
	}
}

// parse parses the crontab of a periodic function.
func (d *Definition) parse() {
	if d.Crontab == "" {
		must(d, d.Misfire != MisfireEach, "OnMisfire(%q): only a periodic function has missed instants", d.Misfire)
		return
	}
	must(d, !d.Grouped() && !d.Batched(), "a periodic function takes one row: use Row or InTx")
	var err error
	d.instants, err = crontab.Parse(d.Crontab, d.Zone, anchor)
	must(d, err == nil, "%v", err)
}

// anchor is the first instant of "@every" in a periodic function.
var anchor = time.Unix(0, 0)

// stamp is the payload of the row of a periodic function.
type stamp struct {
	Instant time.Time `json:"instant"` // UTC; in history, the latest one that the function was called for
	Crontab string    `json:"crontab"`
	Zone    string    `json:"zone,omitempty"`
}

func (d *Definition) stamp(at time.Time) json.RawMessage {
	text, _ := json.Marshal(stamp{at, d.Crontab, d.Zone}) // never fails
	return text
}

// standsFor reports whether a row is the one of a periodic function, and returns the instant that
// it waits for.
func (d *Definition) standsFor(job *FutureJob) (at time.Time, ok bool) {
	if d.Crontab == "" || job.Key() != PeriodicKey(d.Name) {
		return at, false
	}
	var s stamp
	if json.Unmarshal(job.Payload, &s) != nil || s.Instant.IsZero() {
		return job.Slot, true // an application has written the row
	}
	return s.Instant, true
}

// checkOne calls the function for one row: if it is periodic, for the instants that have come.
func (d *Definition) checkOne(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	first, ok := d.standsFor(&job)
	if !ok {
		return d.handler.one(ctx, tx, job)
	}
	before, now := first.Add(-time.Second), job.begun()
	if d.Misfire != MisfireEach {
		job.Instant = first
		if newest := d.instants.Latest(1, before, now); len(newest) > 0 {
			job.Instant = newest[0]
		}
		return d.checkAt(ctx, tx, job)
	}
	var all Result
	for at, ok := first, true; ok && (at.Equal(first) || !at.After(now)); at, ok = d.instants.Next(at) {
		if end, ok := ctx.Deadline(); ok && !at.Equal(first) && time.Until(end) < d.Timeout/2 {
			break // the row ends here, and the row after it takes the next instant
		}
		job.Instant = at
		result, err := d.checkAt(ctx, tx, job)
		if err == nil {
			err = result.Err
		}
		switch {
		case err != nil && d.InTx(): // the writes for the instants before it are rolled back
			return Result{}, err
		case err != nil:
			return Result{Err: err, Payload: d.stamp(job.Instant)}, nil
		}
		all = Result{Next: result.Next, Payload: result.Payload, Enqueue: append(all.Enqueue, result.Enqueue...)}
		if result.Next != nil {
			break
		}
	}
	return all, nil
}

// checkAt calls the function for an instant.
func (d *Definition) checkAt(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	result, err := d.handler.one(ctx, tx, job)
	if err == nil && result.Payload != nil {
		err = errors.New("a periodic function must leave the payload of its row, which is the instant")
	}
	result.Payload = d.stamp(job.Instant)
	return result, err
}

// begun returns when the check of a row has begun.
func (j *FutureJob) begun() time.Time { return j.Slot.Add(j.Lateness) }

// Following returns the row for the next instant of a periodic function whose row has ended. now is
// the present if the function was not called. ok is false if the row is of anything else, or if
// there is no instant any more.
func (d *Definition) Following(job FutureJob, outcome Outcome, now time.Time) (next Request, ok bool) {
	at, ok := d.standsFor(&job)
	if !ok {
		return next, false
	}
	after := now
	switch {
	case outcome == OutcomeDeadline || outcome == OutcomeSkipped || job.Slot.IsZero():
	case d.Misfire == MisfireEach: // the rest is still to come
		after = at
	default: // instants that came while the function ran are still to come
		after = job.begun()
	}
	if after.Before(at) {
		after = at
	}
	return d.awaiting(after)
}

// awaiting returns the row that waits for the first instant after another.
func (d *Definition) awaiting(after time.Time) (row Request, ok bool) {
	at, ok := d.instants.Next(after)
	key := PeriodicKey(d.Name)
	return Request{
		JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey, CheckAt: at, Payload: d.stamp(at),
	}, ok
}

// PeriodicRow is the row of a periodic function.
type PeriodicRow struct {
	JobExec string
	Slot    time.Time // UTC
	Due     bool      // the slot has begun
	Instant time.Time // UTC
	Crontab string
	Zone    string // empty: the one of Crontab, or UTC
}

// PeriodicRows returns the rows of the periodic functions of all binaries, sorted by job.
func (c *Client) PeriodicRows(ctx context.Context, db DB) ([]PeriodicRow, error) {
	return tx.Collect(ctx, db, pgsql.PeriodicRows.In(c.schema), []any{PeriodicEntity, c.Clock()},
		func(row *sql.Rows, v *PeriodicRow) error {
			var payload []byte
			if err := row.Scan(&v.JobExec, &v.Slot, &v.Due, &payload); err != nil {
				return err
			}
			var s stamp
			_ = json.Unmarshal(payload, &s) // an application may have written anything
			v.Slot, v.Instant, v.Crontab, v.Zone = v.Slot.UTC(), s.Instant.UTC(), s.Crontab, s.Zone
			return nil
		})
}

// Differs reports whether a row waits by another crontab or zone than a registered function has.
func (v PeriodicRow) Differs(d *Definition) bool { return v.Crontab != d.Crontab || v.Zone != d.Zone }

// EnqueuePeriodic makes the rows of the periodic functions of a registry that have none. If a row
// waits by another crontab or zone than the one registered, it is replaced, and its successor waits
// for the first instant after now. A row whose slot has begun stays: the row after it follows the
// new crontab. Rows of functions that the registry lacks stay, too.
//
// Every new slots.Runner and `migrate up` call it. It is idempotent, and any number of processes
// may call it concurrently. Of binaries with different crontabs the one that called it last
// decides.
func (c *Client) EnqueuePeriodic(ctx context.Context, db DB, r *Registry) error {
	stale, err := c.stalePeriodic(ctx, db, r)
	if err == nil && len(stale) > 0 {
		err = tx.In(ctx, db, func(db tx.DB) error { return c.renewPeriodic(ctx, db, r) })
	}
	if err != nil {
		return fmt.Errorf("enqueue the periodic functions: %w", err)
	}
	return nil
}

func (c *Client) renewPeriodic(ctx context.Context, db DB, r *Registry) error {
	if _, err := db.ExecContext(ctx, pgsql.PeriodicLock.In(c.schema)); err != nil { // until the transaction ends
		return err
	}
	stale, err := c.stalePeriodic(ctx, db, r)
	if err != nil {
		return err
	}
	far := *c
	far.cfg.Horizon = math.MaxInt64 // a crontab may pause for decades
	for _, d := range stale {
		if row, ok := d.awaiting(c.Now()); ok {
			if _, err := far.Enqueue(ctx, db, row, Replace); err != nil {
				return err
			}
		}
	}
	return nil
}

// HasPeriodic reports whether the registry has a periodic function.
func (r *Registry) HasPeriodic() bool {
	for d := range r.All() {
		if d.Crontab != "" {
			return true
		}
	}
	return false
}

// stalePeriodic returns the periodic functions without a row, or with one that has not begun and
// waits by another crontab.
func (c *Client) stalePeriodic(ctx context.Context, db DB, r *Registry) (stale []*Definition, err error) {
	if !r.HasPeriodic() {
		return nil, nil
	}
	list, err := c.PeriodicRows(ctx, db)
	if err != nil {
		return nil, err
	}
	rows := map[string]PeriodicRow{}
	for _, row := range list {
		rows[row.JobExec] = row
	}
	for d := range r.All() {
		if row, ok := rows[d.Name]; d.Crontab != "" && (!ok || !row.Due && row.Differs(d)) {
			stale = append(stale, d)
		}
	}
	return stale, nil
}
