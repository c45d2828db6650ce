package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/periodic"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/plain"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/tx"
	"github.com/prescient-go/prescient/slots/grid"
)

// PeriodicKey returns the natural key of the row of a function on a crontab, such as for
// Client.Cancel or Client.Reschedule.
func PeriodicKey(job string) Key {
	return Key{JobExec: job, EntityName: periodic.Entity, EntityKey: job}
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
// The first row is made by the first runner that knows the job, and by `migrate up`. It waits for the
// first instant after that moment.
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
// it, the next slot takes the rest. An error of one instant leaves what the calls before it did, and
// a row of its own repeats the instant.
//
// Periodic panics like Register, and for a crontab that does not parse. Package crontab, below
// package schedule, says what one may be.
func (r *Registry) Periodic(name, crontab string, h Handler[FutureJob], opts ...Option) {
	r.add(&Definition{Name: name, Crontab: crontab}, h, opts)
}

// Zone sets the time zone of the crontab of a periodic function, by its name in the IANA database,
// such as "Europe/Berlin". Default: the zone that the crontab names with CRON_TZ, or UTC.
func Zone(name string) Option {
	return Option{func(d *Definition) {
		must(d, d.Crontab != "", "Zone(%q): only a periodic function has a zone", name)
		d.Zone = name
	}}
}

// parse parses the crontab of a periodic function.
func (d *Definition) parse() {
	if d.Crontab == "" {
		must(d, d.Misfire != MisfireEach, "OnMisfire(%q): only a periodic function has missed instants", d.Misfire)
		return
	}
	must(d, !d.Grouped() && !d.Batched(), "a periodic function takes one row: use Row or InTx")
	var err error
	d.instants, err = periodic.Parse(d.Crontab, d.Zone)
	must(d, err == nil, "%v", err)
}

func (d *Definition) stamp(at time.Time) periodic.Stamp {
	return periodic.Stamp{Instant: at, Crontab: d.Crontab, Zone: d.Zone}
}

// standsFor reports whether a row is the one of a periodic function, and returns the instant that
// it waits for.
func (d *Definition) standsFor(job *FutureJob) (at time.Time, ok bool) {
	if d.Crontab == "" || job.Key() != PeriodicKey(d.Name) {
		return at, false
	}
	if at = periodic.Read(job.Payload).Instant; at.IsZero() {
		return job.Slot, true // an application has written the row
	}
	return at, true
}

// checkOne calls the function for one row: if it is periodic, for the instants that have come.
func (d *Definition) checkOne(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	first, ok := d.standsFor(&job)
	if !ok {
		return d.handler.one(ctx, tx, job)
	}
	job.Instant = d.instantOf(&job, first)
	if d.Misfire == MisfireEach {
		return d.checkEach(ctx, tx, job)
	}
	result, err := d.checkAt(ctx, tx, job)
	result.Payload = d.stamp(job.Instant).Payload()
	return result, err
}

// instantOf returns the instant that a check of a row calls the function for first. A row that looks again or is
// retried keeps its instant, whatever has come meanwhile.
func (d *Definition) instantOf(job *FutureJob, waited time.Time) time.Time {
	if d.Misfire != MisfireEach && !job.wasCalled() {
		if newest := d.instants.Latest(1, waited.Add(-time.Second), job.begun()); len(newest) > 0 {
			return newest[0]
		}
	}
	return waited
}

// CalledFor returns the payload of the row of a periodic function that a call has failed for, with the instant of the
// call. Nil: the row is of anything else, or its payload stays.
func (d *Definition) CalledFor(_ reserved.Caller, job FutureJob) json.RawMessage {
	waited, ok := d.standsFor(&job)
	if !ok {
		return nil
	}
	if at := d.instantOf(&job, waited); !at.Equal(waited) {
		return d.stamp(at).Payload()
	}
	return nil
}

// checkEach calls the function for each instant that has come, from the one of the row on, until a call fails. If that
// is not the first call, the calls before it count: the row ends, and the row of the instant that failed follows it.
func (d *Definition) checkEach(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	if job.ErrorCount > d.Retry { // its only try was in the check of an earlier instant
		return Result{}, errors.New(job.LastError)
	}
	all, err := d.checkAt(ctx, tx, job)
	if err != nil || all.Err != nil {
		return all, err
	}
	first, done := cmp.Or(periodic.Read(job.Payload).First, job.Instant), d.stamp(job.Instant)
	for d.goesOn(ctx, &job, all.Next) {
		result, err := beside(ctx, tx, func() (Result, error) { return d.checkAt(ctx, tx, job) })
		switch {
		case err != nil: // the transaction cannot go on
			return Result{}, err
		case errors.Is(result.Err, leave.ErrToSlot), errors.Is(result.Err, ErrGiveUp): // its own row says so again
		case result.Err != nil:
			done.Failed = plain.ErrorText(result.Err)
		default:
			done.Instant, all.Next, all.Enqueue = job.Instant, result.Next, append(all.Enqueue, result.Enqueue...)
		}
		if result.Err != nil {
			break
		}
	}
	if !first.Equal(done.Instant) {
		done.First = first
	}
	all.Payload = done.Payload()
	return all, nil
}

// goesOn moves a row to the next instant, and reports whether the same check calls the function for it. After an error
// of the row a check makes one call: the error may be of a call whose timeout or commit has undone the calls before it.
func (d *Definition) goesOn(ctx context.Context, job *FutureJob, again *time.Time) bool {
	if again != nil || job.ErrorCount > 0 {
		return false
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d.Timeout/2 {
		return false // the row ends here, and the row after it takes the next instant
	}
	at, ok := d.instants.Next(job.Instant)
	job.Instant = at
	return ok && !at.After(job.begun())
}

// checkAt calls the function for an instant.
func (d *Definition) checkAt(ctx context.Context, tx *sqlx.Tx, job FutureJob) (Result, error) {
	result, err := d.handler.one(ctx, tx, job)
	if err == nil && result.Payload != nil {
		err = errors.New("a periodic function must leave the payload of its row, which is the instant")
	}
	if err == nil {
		err = result.validate()
	}
	return result, err
}

// begun returns when the check of a row has begun.
func (j *FutureJob) begun() time.Time { return j.Slot.Add(j.Lateness) }

// wasCalled reports whether the function was called for a row in a check before this one.
func (j *FutureJob) wasCalled() bool { return j.CheckCount+j.ErrorCount > 0 }

// Following returns the row for the next instant of a periodic function whose row has ended. No call
// is for an instant up to dropped; zero: the function was called, or could not be. failed is the
// error of a call for that instant, in the check that has ended the row. ok is false if the row is
// of anything else, or if there is no instant any more.
func (d *Definition) Following(
	_ reserved.Caller, job FutureJob, dropped time.Time,
) (next Request, failed string, ok bool) {
	at, ok := d.standsFor(&job)
	if !ok {
		return next, "", false
	}
	after := dropped
	switch {
	case !dropped.IsZero():
	case d.Misfire == MisfireEach || job.wasCalled(): // what came after the instant is still to come
		after = at
	default: // instants that came while the function ran are still to come
		after = job.begun()
	}
	if after.Before(at) {
		after = at
	}
	next, ok = d.awaiting(after)
	return next, periodic.Read(job.Payload).Failed, ok
}

// farthest is how far ahead the database takes an instant, less a day for the clocks of servers.
const farthest = (100*365 - 1) * 24 * time.Hour

// awaiting returns the row that waits for the first instant after another. ok is false if there is none that the
// database takes.
func (d *Definition) awaiting(after time.Time) (row Request, ok bool) {
	at, ok := d.instants.Next(after)
	ok = ok && at.Sub(after) < farthest
	key := PeriodicKey(d.Name)
	return Request{
		JobExec: key.JobExec, EntityName: key.EntityName, EntityKey: key.EntityKey, CheckAt: at,
		Payload: d.stamp(at).Payload(),
	}, ok
}

// EnqueuePeriodic makes the rows of the periodic functions of a registry that have none. If a row
// waits by another crontab or zone than the one registered, it is replaced, and its successor waits
// for the first instant after now. A row whose slot has begun stays: the row after it follows the
// new crontab. Rows of functions that the registry lacks stay, too.
//
// Every new slots.Runner and `migrate up` call it. It is idempotent, and any number of processes
// may call it concurrently. Of binaries with different crontabs the one that called it last
// decides.
func (c *Client) EnqueuePeriodic(_ reserved.Caller, ctx context.Context, db DB, r *Registry) error {
	find := func(db DB) ([]Request, error) { return c.stalePeriodic(ctx, db, r) }
	stale, err := find(db)
	if err == nil && len(stale) > 0 {
		_, err = c.renewPeriodic(ctx, db, find)
	}
	if err != nil {
		return fmt.Errorf("enqueue the periodic functions: %w", err)
	}
	return nil
}

// RewindPeriodic repairs the rows of periodic functions, of all binaries, that were enqueued or moved
// while the clock of the database was ahead, and returns their number. Each then waits for its
// instant, or for the first instant after now if that is sooner. A row whose slot has begun stays.
func (c *Client) RewindPeriodic(_ reserved.Caller, ctx context.Context, db DB) (rewound int, err error) {
	rewound, err = c.renewPeriodic(ctx, db, func(db DB) ([]Request, error) { return c.aheadPeriodic(ctx, db) })
	if err != nil {
		return 0, fmt.Errorf("rewind the periodic functions: %w", err)
	}
	return rewound, nil
}

// renewPeriodic puts the rows that find returns in the place of those that wait, and returns their number.
func (c *Client) renewPeriodic(
	ctx context.Context, db DB, find func(db DB) ([]Request, error),
) (renewed int, err error) {
	err = tx.In(ctx, db, func(db tx.DB) error {
		if _, err := db.ExecContext(ctx, pg.PeriodicLock.In(c.schema)); err != nil { // until the transaction ends
			return err
		}
		list, err := find(db)
		if err != nil {
			return err
		}
		far := *c
		far.cfg.Horizon = math.MaxInt64 // a crontab may pause for decades
		for _, row := range list {
			if _, err := far.enqueue(ctx, db, row, Replace); err != nil {
				return err
			}
		}
		renewed = len(list)
		return nil
	})
	return renewed, err
}

// HasPeriodic reports whether the registry has a periodic function.
func (r *Registry) HasPeriodic(_ reserved.Caller) bool {
	for d := range r.All() {
		if d.Crontab != "" {
			return true
		}
	}
	return false
}

// stalePeriodic returns new rows of the periodic functions without a row, or with one that has not begun and waits by
// another crontab.
func (c *Client) stalePeriodic(ctx context.Context, db DB, r *Registry) (stale []Request, err error) {
	if !r.HasPeriodic(reserved.Caller{}) {
		return nil, nil
	}
	list, err := periodic.Rows(ctx, db, c.schema, c.clock())
	if err != nil {
		return nil, err
	}
	rows := map[string]periodic.Row{}
	for _, row := range list {
		rows[row.JobExec] = row
	}
	for d := range r.All() {
		if row, ok := rows[d.Name]; d.Crontab == "" || ok && (row.Due || !row.Differs(d.Crontab, d.Zone)) {
			continue
		}
		if next, ok := d.awaiting(c.Now()); ok {
			stale = append(stale, next)
		}
	}
	return stale, nil
}

// aheadPeriodic returns new rows of the periodic functions whose rows were enqueued or moved while the clock was ahead.
// It leaves out a row of an application, without a crontab.
func (c *Client) aheadPeriodic(ctx context.Context, db DB) (ahead []Request, err error) {
	list, err := periodic.Rows(ctx, db, c.schema, c.clock())
	for _, row := range list {
		d := &Definition{Name: row.JobExec, Crontab: row.Stamp.Crontab, Zone: row.Stamp.Zone}
		var unreadable error
		if d.instants, unreadable = periodic.Parse(d.Crontab, d.Zone); unreadable != nil || !row.Ahead {
			continue
		}
		after := grid.Earlier(c.Now(), row.Stamp.Instant.Add(-time.Second))
		if next, ok := d.awaiting(after); ok {
			ahead = append(ahead, next)
		}
	}
	return ahead, err
}
