package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prescient-go/prescient/jobs"
)

// floorCase is a table: how many due rows of how many, how they lie, and whether they have a natural key.
type floorCase struct {
	due, table int
	scattered  bool
	keyed      bool
	operations []operation
}

// operation is what happens to the due rows. Of every five rows, move goes to a later slot and the rest is finished.
type operation struct {
	name string
	move int
}

var (
	finishAll = operation{"finish", 0}
	moveAll   = operation{"move", 5}
	mixed     = operation{"80/20 mixed", 1}
)

// floor compares a run with the one statement that does the same to the same table: nothing can be faster that keeps
// history and the schema.
func floor(ctx context.Context, b *bench) error {
	for _, c := range b.floorCases() {
		if err := c.measure(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

func (b *bench) floorCases() []floorCase {
	n := b.rows
	if b.short {
		return []floorCase{
			{n, 10 * n, true, true, []operation{finishAll, moveAll}},
			{n, 10 * n, false, true, []operation{finishAll}},
		}
	}
	all := []operation{finishAll, moveAll, mixed}
	var cases []floorCase
	for _, scattered := range []bool{true, false} {
		for _, keyed := range []bool{true, false} {
			cases = append(cases, floorCase{n, 10 * n, scattered, keyed, all})
		}
	}
	if b.toy {
		return cases
	}
	// More rows that wait. A million due rows would take a quarter of an hour more.
	return append(cases, floorCase{n, 100 * n, true, true, all})
}

func (c floorCase) String() string {
	layout, kind := "contiguous", "anonymous"
	if c.scattered {
		layout = "scattered"
	}
	if c.keyed {
		kind = "keyed"
	}
	return fmt.Sprintf("%s of %s, %s, %s", short(c.due), short(c.table), layout, kind)
}

// short is a number of rows as people write it.
func short(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprintf("%gM", float64(n)/1_000_000)
	case n >= 1000 && n%100 == 0:
		return fmt.Sprintf("%gk", float64(n)/1000)
	default:
		return fmt.Sprint(n)
	}
}

func (c floorCase) target(op operation) *target {
	switch {
	case op == moveAll:
		return atLeast(1.0)
	case op == finishAll && c.scattered:
		return atLeast(0.9)
	case op == finishAll:
		return atLeast(0.7)
	default:
		return nil
	}
}

func (c floorCase) measure(ctx context.Context, b *bench) error {
	s, err := b.server.store(ctx, "floor")
	if err != nil {
		return err
	}
	defer s.drop(ctx)
	r := &ring{store: s, floorCase: c}
	if err := r.make(ctx); err != nil {
		return err
	}
	for _, op := range c.operations {
		what := fmt.Sprintf("%s, %s", op.name, c)
		all, err := b.interleave(ctx, what,
			side{name: "prescient", prepare: r.prepare, measure: func(ctx context.Context) (part, error) {
				return r.run(ctx, op, register(r.check(op), jobs.MaxChecks(math.MaxInt32)))
			}},
			side{name: "batches", prepare: r.prepare, measure: func(ctx context.Context) (part, error) {
				return r.run(ctx, op, registerBatch(r.batch(op), jobs.MaxChecks(math.MaxInt32)))
			}},
			side{name: "one SQL statement", prepare: r.prepare, measure: func(ctx context.Context) (part, error) {
				return r.runSQL(ctx, op)
			}})
		if err != nil {
			return err
		}
		f := figure{Workload: "floor", Case: what, Subject: "prescient", Against: "one SQL statement"}
		b.report.compare(f, all[0], all[2], c.target(op))
		f.Subject = "prescient, in batches"
		b.report.compare(f, all[1], all[2], c.target(op))
	}
	return nil
}

// ring is a table of table/due slots. The oldest is run; what leaves the table is filled in again as the newest slot,
// so that every part meets a table of the same size whose new rows lie where old ones were.
type ring struct {
	*store
	floorCase
	oldest, newest int // slots; newest is the first that has no rows
	missing        int // rows that left the table
}

func (r *ring) make(ctx context.Context) error {
	slots := r.table / r.due
	slot := fmt.Sprintf("n %% %d", slots)
	if !r.scattered {
		slot = fmt.Sprintf("n / %d", r.due)
	}
	r.newest = slots
	return r.fill(ctx, r.table, slot, r.keyed)
}

// prepare fills the newest slot up with what the last part took away.
func (r *ring) prepare(ctx context.Context) error {
	if err := r.forget(ctx); err != nil {
		return err
	}
	if err := r.vacuum(ctx); err != nil {
		return err
	}
	if r.missing == 0 {
		return nil
	}
	// The newest slot was opened by the rows that moved there, or is opened now.
	if err := r.insert(ctx, r.missing, fmt.Sprint(r.newest-1), r.keyed); err != nil {
		return err
	}
	r.missing = 0
	return r.exec(ctx, "analyze prescient.future_job")
}

// ran takes note that the oldest slot was run, and checks that each of its rows is where it must be.
func (r *ring) ran(ctx context.Context, op operation) error {
	gone, err := r.count(ctx, "select count(*) from prescient.future_job_history")
	if err != nil {
		return err
	}
	moved := r.due - int(gone)
	share := float64(op.move) / 5
	want := int(float64(r.due) * share)
	off := 0
	if op == mixed { // 5 %, or four standard deviations of few rows
		off = max(r.due/20, int(4*math.Sqrt(float64(r.due)*share*(1-share))))
	}
	if moved < want-off || moved > want+off {
		return fmt.Errorf("%d of %d rows moved, want %d", moved, r.due, want)
	}
	slot := r.slot(r.newest)
	r.oldest++
	r.newest++
	r.missing = r.due - moved
	return r.expect(ctx, moved, "select count(*) from prescient.future_job where next_check_at = $1", slot)
}

func (r *ring) run(ctx context.Context, op operation, registry *jobs.Registry) (part, error) {
	p, err := r.store.run(ctx, registry, r.slot(r.oldest), r.due)
	if err != nil {
		return p, err
	}
	return p, r.ran(ctx, op)
}

// decide returns what becomes of a row; runSQL decides alike.
func (r *ring) decide(op operation) func(job jobs.FutureJob) *time.Time {
	later := r.slot(r.newest)
	return func(job jobs.FutureJob) *time.Time {
		if int((job.ID+7919*int64(job.CheckCount))*2654435761>>16%5) < op.move {
			return &later
		}
		return nil
	}
}

func (r *ring) check(op operation) jobs.CheckFunc {
	decide := r.decide(op)
	return func(_ context.Context, job jobs.FutureJob) (*time.Time, error) { return decide(job), nil }
}

func (r *ring) batch(op operation) jobs.BatchFunc { return inBatches(r.decide(op)) }

// archiveGone writes the rows of gone to history, with the columns that a run writes.
const archiveGone = `
	insert into prescient.future_job_history (
		id, job_exec, entity_name, entity_key, item_key, group_key, first_check_at, slot, check_count, error_count,
		last_error, spent, payload, enqueued_at, enqueued_by, outcome, lateness, duration, runner
	)
	select
		id, '` + jobName + `', entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, check_count + 1,
		error_count, last_error, spent + interval '1 microsecond', payload, enqueued_at, enqueued_by, 'done',
		interval '0', interval '1 microsecond', 'sql'
	from gone`

// runSQL does to the oldest slot what a run does, in one statement: the same columns of the same tables.
func (r *ring) runSQL(ctx context.Context, op operation) (part, error) {
	const (
		dice = "((id + 7919 * check_count) * 2654435761 >> 16) % 5"
		move = `
			update prescient.future_job
			set next_check_at = $2, check_count = check_count + 1, error_count = 0, spent = spent + interval '1 microsecond'
			where next_check_at = $1`
		remove = `
			delete from prescient.future_job
			where next_check_at = $1`
	)
	statement := map[operation]string{
		finishAll: "with gone as (" + remove + " returning *) " + archiveGone,
		moveAll:   move,
		mixed: "with moved as (" + move + " and " + dice + " < 1), " +
			"gone as (" + remove + " and " + dice + " >= 1 returning *) " + archiveGone,
	}[op]
	args := []any{r.slot(r.oldest), r.slot(r.newest)}
	if op == finishAll {
		args = args[:1]
	}
	p, err := timed(r.due, func() error {
		_, err := r.db.ExecContext(ctx, statement, args...)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("run the statement: %w", err)
	}
	return p, r.ran(ctx, op)
}
