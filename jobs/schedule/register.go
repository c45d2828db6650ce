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

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// JobExec is the job that publishes schedules.
	JobExec = "schedule"
	// EntityName is the entity of the rows of JobExec; their entity_key is the id of the schedule.
	EntityName = "schedule"
	// EventType is the type of every event of a schedule.
	EventType = "prescient.schedule.due"
	// DefaultSource is the default source of the events.
	DefaultSource = "prescient"
	// DefaultTimeout is the default time limit for the schedules of one page.
	DefaultTimeout = 5 * time.Minute
)

// PublishConfig configures where the events of schedules go. Publisher must be set; every other zero
// field means its default.
type PublishConfig struct {
	// Publisher takes the events; one that is an event.TxPublisher in the transaction that moves
	// the schedules on.
	Publisher event.Publisher
	// Source is that of every event, a URI reference. Default: DefaultSource.
	Source string
	// Schema holds the schedules. Default "prescient".
	Schema pgsql.Schema
	// Timeout is how long the schedules of a page may take. A publisher gets four fifths of it;
	// what it has not confirmed by then is tried again in the next slot. Default: DefaultTimeout.
	Timeout time.Duration
}

// Register registers the job that publishes schedules. It keeps to, whose Publisher may be another
// one in the next run. It panics like jobs.Registry.Register.
//
// The job's transaction holds the rows of its schedules before it reads the schedules, and while it
// publishes. Whoever changes a schedule holds its row, too, so either the change waits for the
// events, or the events are those of the changed schedule.
func Register(registry *jobs.Registry, to *PublishConfig) {
	registry.RegisterBatchTx(JobExec, to.run,
		jobs.MaxChecks(math.MaxInt32), jobs.Horizon(longestPause), jobs.Retry(math.MaxInt32), jobs.MaxBackOff(1),
		jobs.Timeout(cmp.Or(to.Timeout, DefaultTimeout)))
}

// longestPause is about as long as a duration can be. Five fields make one of 40 years at the most:
// 29 February on one day of the week.
const longestPause = 290 * 365 * 24 * time.Hour

// waiting is the payload of a row of future_job. It is written whenever the row moves, so what it
// has costs no write.
type waiting struct {
	At   int64 `json:"at"`             // Unix seconds of the nominal instant that is published next
	Last int64 `json:"last,omitempty"` // and of the one that was published last; 0: none was
	Runs int64 `json:"runs,omitempty"` // events that were published, if there is a limit
}

func (w waiting) payload() json.RawMessage {
	text, _ := json.Marshal(w) // never fails
	return text
}

// due is a schedule as a run reads it.
type due struct {
	timeline
	payload json.RawMessage
	err     error // this binary cannot parse its crontab
}

func (to *PublishConfig) run(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) ([]jobs.Result, error) {
	if to.Publisher == nil {
		return nil, fmt.Errorf("publish schedules: %w", errNoPublisher)
	}
	g, schedules, err := to.read(ctx, tx, rows)
	if err != nil {
		return nil, fmt.Errorf("read the schedules that are due: %w", err)
	}
	b := &batch{to: to, tx: tx, grid: g, rows: rows, results: make([]jobs.Result, len(rows)), past: make([]past, len(rows))}
	publishing, cancel := context.WithTimeout(ctx, cmp.Or(to.Timeout, DefaultTimeout)/5*4)
	defer cancel()
	for i, row := range rows {
		if row.EntityName != EntityName || row.ItemKey != "" || row.Anonymous {
			b.results[i].Err = fmt.Errorf("the row stands for no schedule: rows of job %q have entity_name %q and no item_key", JobExec, EntityName)
			continue
		}
		s, ok := schedules[row.EntityKey]
		if !ok {
			continue // it is gone or paused: the row ends
		}
		if err := b.check(publishing, i, s); err != nil {
			return nil, err
		}
	}
	if err := b.flush(publishing); err != nil {
		return nil, err
	}
	return b.results, b.count(ctx)
}

// read returns the grid and the schedules of rows that the transaction has locked.
func (to *PublishConfig) read(ctx context.Context, tx *sqlx.Tx, rows []jobs.FutureJob) (grid.Grid, map[string]due, error) {
	g, _, err := settings(ctx, tx, to.Schema)
	if err != nil {
		return g, nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.EntityKey
	}
	specs, err := pgsql.Collect(ctx, tx, pgsql.ScheduleDue.In(to.Schema), []any{pq.StringArray(ids)}, func(row *sql.Rows, s *Spec) error {
		return s.scan(row)
	})
	if err != nil {
		return g, nil, err
	}
	schedules := make(map[string]due, len(specs))
	for _, s := range specs {
		c, err := s.instants()
		schedules[s.ID] = due{timeline: newTimeline(s, c), payload: s.Payload, err: err}
	}
	return g, schedules, nil
}

// batch is what becomes of the rows of one call.
type batch struct {
	to      *PublishConfig
	tx      *sqlx.Tx
	grid    grid.Grid
	rows    []jobs.FutureJob
	results []jobs.Result
	past    []past // what became of the instants of each row

	events []event.Event // not published yet
	owners []owner       // of each
	down   error         // the publisher took nothing; it is not asked again
}

// past is what a row leaves behind.
type past struct {
	dropped int64
	ended   bool // unless its last event failed
	state   waiting
}

// owner is the row of an event, and what it waits for when that is not published.
type owner struct {
	row   int
	state waiting
}

// chunk is how many events are handed to the publisher at once.
const chunk = 1000

// check plans one row and collects its events.
func (b *batch) check(ctx context.Context, i int, s due) error {
	row := b.rows[i]
	state, err := jobs.Payload[waiting](row)
	if err == nil {
		err = s.err
	}
	if err != nil {
		b.results[i].Err = err
		return nil
	}
	now := row.Slot.Add(row.Lateness)
	p := s.plan(b.grid, row.Slot, now, time.Unix(state.At, 0).UTC())
	b.past[i].dropped = count(s.crontab, p.from, p.cut)
	for at := range s.crontab.Between(p.cut, p.last) {
		if s.ends(state) {
			break
		}
		b.events = append(b.events, b.to.event(newOccurrence(row.EntityKey, at, s.payload), at, now))
		state.At = at.Unix()
		b.owners = append(b.owners, owner{i, state})
		if state.Last = at.Unix(); s.maxRuns > 0 {
			state.Runs++
		}
		if len(b.events) < chunk {
			continue
		}
		if err := b.flush(ctx); err != nil {
			return err
		}
		if b.results[i].Err != nil {
			return nil
		}
	}
	b.moveOn(i, s, state, p.last)
	return nil
}

// event is that of an occurrence.
func (to *PublishConfig) event(o Occurrence, at, now time.Time) event.Event {
	return event.Event{
		ID: o.ID, Source: cmp.Or(to.Source, DefaultSource), Type: EventType, Subject: o.ScheduleID, Time: at, GeneratedAt: now, Data: o.data(),
	}
}

// publish publishes events in a transaction if the publisher supports that.
func (to *PublishConfig) publish(ctx context.Context, tx *sqlx.Tx, events []event.Event) (err error) {
	if to.Publisher == nil {
		return errNoPublisher
	}
	if in, ok := to.Publisher.(event.TxPublisher); ok {
		err = in.PublishTx(ctx, tx, events)
	} else {
		err = to.Publisher.Publish(ctx, events)
	}
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

var errNoPublisher = errors.New("no publisher is set")

// moveOn lets a row wait for the first instant after the last one, or end.
func (b *batch) moveOn(i int, s due, state waiting, last time.Time) {
	next, ok := s.crontab.Next(last)
	if ok = ok && !s.ends(state); ok {
		state.At = next.Unix()
		b.results[i] = jobs.Result{Next: new(next.Add(s.offset)), Payload: state.payload()}
	}
	b.past[i].ended, b.past[i].state = !ok, state
}

// flush publishes what was collected. The row of an event that fails waits for that event again.
func (b *batch) flush(ctx context.Context) error {
	if len(b.events) == 0 {
		return nil
	}
	if _, ok := b.to.Publisher.(event.TxPublisher); !ok {
		b.publish(ctx)
	} else if err := b.to.publish(ctx, b.tx, b.events); err != nil {
		return err
	}
	b.events, b.owners = b.events[:0], b.owners[:0]
	return nil
}

func (b *batch) publish(ctx context.Context) {
	err := b.down
	if err == nil {
		err = b.to.Publisher.Publish(ctx, b.events)
	}
	if _, partial := errors.AsType[*event.PartialError](err); !partial {
		b.down = err
	}
	for n, err := range event.Errors(err, len(b.events)) {
		if o := b.owners[n]; err != nil && b.results[o.row].Err == nil {
			b.results[o.row] = jobs.Result{Err: fmt.Errorf("publish: %w", err), Payload: o.state.payload()}
		}
	}
}

// count records dropped events, and the state of the rows that end. The same transaction moves the
// others on.
func (b *batch) count(ctx context.Context) error {
	var all pasts
	for i, p := range b.past {
		ended := p.ended && b.results[i].Err == nil
		if !ended {
			p.state = waiting{} // the row keeps it, without what has failed
		}
		if ended || p.dropped > 0 {
			all.add(b.rows[i].EntityKey, p.dropped, p.state)
		}
	}
	return all.write(ctx, b.tx, b.to.Schema)
}

// pasts are the parameters of schedule_state.
type pasts struct {
	ids           pq.StringArray
	dropped, runs pq.Int64Array
	last          pq.StringArray
}

func (p *pasts) add(id string, dropped int64, state waiting) {
	last := ""
	if state.Last != 0 {
		last = time.Unix(state.Last, 0).UTC().Format(time.RFC3339)
	}
	p.ids, p.dropped, p.runs, p.last = append(p.ids, id), append(p.dropped, dropped), append(p.runs, state.Runs), append(p.last, last)
}

func (p *pasts) write(ctx context.Context, tx jobs.DB, schema pgsql.Schema) error {
	if len(p.ids) == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, pgsql.ScheduleDrop.In(schema), p.ids, p.dropped, p.runs, p.last); err != nil {
		return fmt.Errorf("count what was dropped: %w", err)
	}
	return nil
}
