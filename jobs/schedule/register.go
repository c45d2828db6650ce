package schedule

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/leave"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/jobs/schedule/crontab"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// JobExec is the job that publishes schedules.
	JobExec = reserved.Schedule
	// EntityName is the entity of the rows of JobExec; their entity_key is the id of the schedule.
	EntityName = "schedule"
	// EventType is the type of every event of a schedule.
	EventType = "io.github.prescient-go.schedule.due"
	// DefaultTimeout is the default time limit for the schedules of one page.
	DefaultTimeout = 5 * time.Minute
)

// PublishConfig configures where the events of schedules go. Publisher must be set; every other
// zero field means its default.
type PublishConfig struct {
	// Publisher takes the events in the transaction that advances the schedules, such as an outbox.
	Publisher event.TxPublisher
	// Source is the source of every event, a URI reference. Defaults to that of the store, see event.Event.
	Source string
	// Schema holds the schedules. Defaults to "prescient".
	Schema pgsql.Schema
	// Timeout is how long the schedules of a page may take. Defaults to DefaultTimeout.
	Timeout time.Duration

	held time.Duration // instead of patience and half of Timeout; 0: neither
}

// patience is how long the statements of a row may take together before the rest waits for the next slot: they hold the
// row, and an error undoes them all.
func (to *PublishConfig) patience() time.Duration { return cmp.Or(to.held, 10*time.Minute) }

// share is how long a call reads and collects events before the rest of its rows is for the next call. What it has
// collected needs time, too.
func (to *PublishConfig) share() time.Duration { return cmp.Or(to.held, to.timeout()/2) }

// Register registers the job that publishes schedules. It keeps the pointer to, so a caller may set
// another Publisher between two runs. It panics like jobs.Registry.Register.
//
// The job's transaction locks the rows of its schedules before it reads the schedules, and until it
// has published. A change of a schedule locks its row too. So either the change waits for the
// events, or the events are those of the changed schedule.
func Register(registry *jobs.Registry, to *PublishConfig) {
	most := to.patience() + MaxSQLTimeout + time.Minute // the last statement of a row may begin after nearly all patience
	registry.RegisterReserved(reserved.Caller{}, JobExec, jobs.BatchInTx(to.run),
		jobs.MaxChecks(math.MaxInt32), jobs.Horizon(longestPause), jobs.Retry(math.MaxInt32), jobs.MaxBackOff(1),
		jobs.Timeout(max(to.timeout(), most)))
}

func (to *PublishConfig) timeout() time.Duration { return cmp.Or(to.Timeout, DefaultTimeout) }

// longestPause is nearly the longest duration. Five fields can pause for 40 years: 29 February on
// one day of the week.
const longestPause = 290 * 365 * 24 * time.Hour

// cursor is the payload of a row of future_job. Each move of the row writes it, so its content
// costs no extra write.
type cursor struct {
	At   int64 `json:"at"`             // Unix seconds of the nominal instant that is published next
	From int64 `json:"from,omitempty"` // instead of At, by set_schedule, which reads no crontab: see begin
	Last int64 `json:"last,omitempty"` // of the last published instant; 0: none
	Runs int64 `json:"runs,omitempty"` // published events, if there is a limit
	Rows int64 `json:"rows,omitempty"` // that the last statement changed or returned
}

func (w cursor) payload() json.RawMessage {
	text, _ := json.Marshal(w) // never fails
	return text
}

// begin replaces From by At, the first instant after it. It returns false if there is no instant after From.
func (w *cursor) begin(instants crontab.Crontab) bool {
	if w.From == 0 {
		return true
	}
	first, ok := instants.Next(time.Unix(w.From, 0).UTC())
	w.At, w.From = first.Unix(), 0
	return ok
}

// dueSchedule is a schedule as a run reads it.
type dueSchedule struct {
	timeline
	payload json.RawMessage
	act     Act
	zone    string // its name; empty without an act
	err     error  // this binary cannot parse its crontab, or refuses its act
}

func newDue(s Spec) dueSchedule {
	c, err := s.instants()
	due := dueSchedule{timeline: newTimeline(s, c), payload: s.Payload, act: s.Act, err: err}
	if s.Act == (Act{}) { // as most are
		return due
	}
	due.err = errors.Join(err, s.Act.check(s.Payload)) // set_schedule checks neither
	if zone, err := crontab.Zone(s.Crontab, s.Timezone); err == nil {
		due.zone = zone.String()
	}
	return due
}

func (to *PublishConfig) run(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	if to.Publisher == nil {
		return nil, fmt.Errorf("publish schedules: %w", errNoPublisher)
	}
	g, schedules, err := to.read(ctx, tx, rows)
	if err != nil {
		return nil, divided(fmt.Errorf("read the schedules that are due: %w", err))
	}
	b := &batch{
		to: to, tx: tx, grid: g, rows: rows, results: make([]jobs.Result, len(rows)),
		states: make([]scheduleState, len(rows)),
	}
	if len(rows) == 1 && b.hasStatement(schedules, rows[0]) {
		err = b.runStatement(ctx, schedules[rows[0].EntityKey])
	} else {
		err = b.publish(ctx, schedules)
	}
	if err != nil {
		return nil, divided(err)
	}
	for i, r := range b.results {
		if r.Err != nil && !errors.Is(r.Err, leave.ErrToNext) && !errors.Is(r.Err, leave.ErrAlone) {
			// the log names only the job
			b.results[i].Err = fmt.Errorf("schedule %s: %w", spoken.Word(rows[i].EntityKey), r.Err)
		}
	}
	return b.results, b.recordStates(ctx)
}

// divided marks an error of a call that one of its schedules may have caused: a value that this binary cannot read, or
// an event that the publisher refuses. The runner then finds the row, and publishes the other schedules. An error of
// the server tells by its state whether it is of a value.
func divided(err error) error {
	infinite := pg.HasState(err, pqerror.FeatureNotSupported) // the number of seconds of an infinite interval
	if pg.State(err) != "" && !infinite {
		return err
	}
	return fmt.Errorf("%w: %w", jobs.ErrDivide, err)
}

// hasStatement reports whether the schedule of a row has a statement.
func (b *batch) hasStatement(schedules map[string]dueSchedule, row jobs.FutureJob) bool {
	return schedules[row.EntityKey].act.SQL != "" && b.standsForSchedule(row)
}

func (b *batch) standsForSchedule(row jobs.FutureJob) bool {
	return row.EntityName == EntityName && row.ItemKey == "" && !row.Anonymous
}

// publish checks the rows that have no statement, and leaves each of the others to a call of its own: no event waits
// for a statement, and a statement has a transaction that locks only its own row.
func (b *batch) publish(ctx context.Context, schedules map[string]dueSchedule) error {
	ctx, cancel := context.WithTimeout(ctx, b.to.timeout())
	defer cancel()
	began, done := time.Now(), 0 //nolint:forbidigo // measures how long the call holds its rows
	for i, row := range b.rows {
		s, ok := schedules[row.EntityKey]
		switch {
		case b.hasStatement(schedules, row):
			b.results[i].Err = leave.ErrAlone
			continue
		case done > 0 && time.Since(began) >= b.to.share():
			b.results[i].Err = leave.ErrToNext
			continue
		case !b.standsForSchedule(row):
			b.results[i].Err = fmt.Errorf("the row stands for no schedule: rows of job %q have entity_name %q and no item_key",
				JobExec, EntityName)
		case ok: // else the schedule is deleted or paused: the row ends
			if err := b.check(ctx, i, s); err != nil {
				return err
			}
		}
		done++
	}
	return b.flush(ctx)
}

// runStatement runs the statement of the only row, for each instant that is due. If one instant fails, the statement
// has run for no instant of the row: all are due again in the next slot.
func (b *batch) runStatement(ctx context.Context, s dueSchedule) error {
	if _, err := b.tx.ExecContext(ctx, "savepoint prescient_schedule"); err != nil {
		return err
	}
	if err := b.check(ctx, 0, s); err != nil {
		return err
	}
	after := "release savepoint prescient_schedule"
	if b.results[0].Err != nil {
		b.states[0] = scheduleState{}
		after = "rollback to savepoint prescient_schedule; " + after
	}
	_, err := b.tx.ExecContext(ctx, after)
	return err
}

// read returns the grid and the schedules of rows that the transaction has locked.
func (to *PublishConfig) read(
	ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob,
) (grid.Grid, map[string]dueSchedule, error) {
	g, _, err := settings(ctx, tx, to.Schema)
	if err != nil {
		return g, nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.EntityKey
	}
	specs, err := pg.Collect(ctx, tx, pg.ScheduleDue.In(to.Schema), []any{pq.StringArray(ids)},
		func(row *sql.Rows, s *Spec) error {
			return s.scan(row)
		})
	if err != nil {
		return g, nil, err
	}
	schedules := make(map[string]dueSchedule, len(specs))
	for _, s := range specs {
		schedules[s.ID] = newDue(s)
	}
	return g, schedules, nil
}

// batch is one call of the job: its rows and their results.
type batch struct {
	to      *PublishConfig
	tx      *sqlx.Tx
	grid    grid.Grid
	rows    []jobs.FutureJob
	results []jobs.Result
	states  []scheduleState // of each row

	events []event.Event // not yet published
}

// scheduleState holds what the check of a row changes in its schedule.
type scheduleState struct {
	dropped int64
	ended   bool
	cursor  cursor
}

// chunk is how many events the publisher gets at once.
const chunk = 1000

// check plans one row and collects its events.
func (b *batch) check(ctx context.Context, i int, s dueSchedule) error {
	row := b.rows[i]
	state, err := jobs.Payload[cursor](row)
	if err == nil {
		err = s.err
	}
	if err != nil {
		b.results[i].Err = err
		return nil
	}
	now := row.Slot.Add(row.Lateness)
	if !state.begin(s.crontab) {
		b.states[i].ended, b.states[i].cursor = true, state
		return nil
	}
	p := s.plan(b.grid, row.Slot, now, time.Unix(state.At, 0).UTC())
	b.states[i].dropped = count(s.crontab, p.from, p.cut)
	began := time.Now() //nolint:forbidigo // measures how long statements hold the row
	var checks []jobs.Request
	for at := range s.crontab.Between(p.cut, p.last) {
		if s.ends(state) {
			break
		}
		o := newOccurrence(row.EntityKey, at, s.payload)
		switch {
		case s.act.SQL != "":
			state.Rows, err = s.execute(ctx, b.tx, at)
		case s.act.Job != "":
			checks = append(checks, s.act.request(o, row.Slot))
		case s.act.Notify != "":
			err = b.add(ctx, b.to.message(s, o, at, now))
		default:
			err = b.add(ctx, b.to.event(o, at, now))
		}
		if err != nil && s.act.SQL != "" && ctx.Err() == nil && !pg.IsRetryable(err) {
			b.results[i].Err = fmt.Errorf("the statement for %s: %w", spoken.Instant(at), err)
			return nil
		}
		if err != nil {
			return err
		}
		state.At = at.Unix()
		if state.Last = at.Unix(); s.maxRuns > 0 {
			state.Runs++
		}
		if s.act.SQL != "" && time.Since(began) >= b.to.patience() { // the rest is for the next slot
			p.last = at
			break
		}
	}
	b.advance(i, s, state, p.last, now)
	b.results[i].Enqueue = checks
	return nil
}

// add collects an event.
func (b *batch) add(ctx context.Context, e event.Event) error {
	if b.events = append(b.events, e); len(b.events) < chunk {
		return nil
	}
	return b.flush(ctx)
}

// event returns the event of an occurrence.
func (to *PublishConfig) event(o Occurrence, at, now time.Time) event.Event {
	return event.Event{
		ID: o.ID, Source: to.Source, Type: EventType, Subject: o.ScheduleID, Time: at,
		PublishedAt: now, Data: o.data(),
	}
}

// publish publishes events in a transaction.
func (to *PublishConfig) publish(ctx context.Context, tx *sqlx.Tx, events []event.Event) error {
	if to.Publisher == nil {
		return errNoPublisher
	}
	if err := to.Publisher.PublishTx(ctx, tx, events); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

var errNoPublisher = errors.New("no publisher is set")

// advance lets a row wait for the first instant after last, or end. An instant that has passed waits for the next slot.
func (b *batch) advance(i int, s dueSchedule, state cursor, last, now time.Time) {
	next, ok := s.crontab.Next(last)
	if ok = ok && !s.ends(state); ok {
		state.At = next.Unix()
		at := next.Add(s.offset)
		if current := b.grid.Floor(grid.Later(now, b.rows[i].Slot)); !at.After(current) {
			at = b.grid.Add(current, 1)
		}
		b.results[i] = jobs.Result{Next: &at, Payload: state.payload()}
	}
	b.states[i].ended, b.states[i].cursor = !ok, state
}

// flush publishes the collected events.
func (b *batch) flush(ctx context.Context) error {
	if len(b.events) == 0 {
		return nil
	}
	err := b.to.publish(ctx, b.tx, b.events)
	b.events = b.events[:0]
	return err
}

// recordStates records dropped events, and the cursors of rows that end. The same transaction
// advances the other rows.
func (b *batch) recordStates(ctx context.Context) error {
	var all stateChanges
	for i, p := range b.states {
		if !p.ended {
			p.cursor = cursor{} // the row keeps it
		}
		if p.ended || p.dropped > 0 {
			all.add(b.rows[i].EntityKey, p.dropped, p.cursor)
		}
	}
	return all.write(ctx, b.tx, b.to.Schema)
}

// stateChanges are the parameters of the statement schedule_state.
type stateChanges struct {
	ids           pq.StringArray
	dropped, runs pq.Int64Array
	last          pq.StringArray
}

func (p *stateChanges) add(id string, dropped int64, state cursor) {
	last := ""
	if state.Last != 0 {
		last = time.Unix(state.Last, 0).UTC().Format(time.RFC3339)
	}
	p.ids, p.dropped = append(p.ids, id), append(p.dropped, dropped)
	p.runs, p.last = append(p.runs, state.Runs), append(p.last, last)
}

func (p *stateChanges) write(ctx context.Context, tx jobs.DB, schema pgsql.Schema) error {
	if len(p.ids) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, pg.ScheduleDrop.In(schema), p.ids, p.dropped, p.runs, p.last); err != nil {
		return fmt.Errorf("count what was dropped: %w", err)
	}
	return nil
}
