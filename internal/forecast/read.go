package forecast

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// reader reads the data of a forecast, and holds it.
type reader struct {
	schema   pgsql.Schema
	ledger   *ledger.Ledger
	grid     grid.Grid
	since    time.Time // the first slot of this width
	now      time.Time
	sample   int64 // blocks
	registry *jobs.Registry
	from, to time.Time
	cut      bool // the forecast was shortened to end at to
	notes    []string

	waiting map[int64]map[string]load // by slot and job
	overdue map[string]ledger.Count   // by job
	// moreOverdue tells that more slots have rows, which are not counted.
	moreOverdue bool
	waits       map[string]bool // jobs that have rows in them
	paused      map[string]bool
	known       map[string]bool // by a run of the last 7 days
	removed     map[string]bool // rules that were removed: no more rows come
	slas        map[string]time.Duration
	deadlines   map[int64]time.Duration // the shortest deadline of the schedules in a slot
	past        past
	seasons     map[string]seasonality
	curves      map[string]*curve
	coming      map[int64]coming
}

// begun returns the slot before the first one of the forecast.
func (r *reader) begun() time.Time { return r.grid.Previous(r.from) }

// readSlots counts the waiting rows, including those of the slot that has begun.
func (r *reader) readSlots(ctx context.Context, tx *sqlx.Tx) (map[int64]map[string]load, error) {
	waiting := map[int64]map[string]load{}
	r.waits = map[string]bool{}
	_, err := pg.Collect(ctx, tx, pg.ForecastSlots.In(r.schema), []any{r.begun(), r.to},
		func(row *sql.Rows, _ *struct{}) error {
			var slot time.Time
			var name string
			var rows int64
			if err := row.Scan(&slot, &name, &rows); err != nil {
				return err
			}
			if waiting[slot.Unix()] == nil {
				waiting[slot.Unix()] = map[string]load{}
			}
			waiting[slot.Unix()][name] = load{waiting: float64(rows)}
			r.waits[name] = true
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("count what waits: %w", err)
	}
	return waiting, nil
}

// readOverdue counts the overdue rows as status does. No statement of a forecast may come after it in its transaction,
// because it keeps the transaction to the slot index.
func (r *reader) readOverdue(ctx context.Context, tx *sqlx.Tx) error {
	if _, err := tx.ExecContext(ctx, pg.SlotIndexOnly.In(r.schema)); err != nil {
		return err
	}
	state, err := health.Read(ctx, r.ledger.In(reserved.Caller{}, tx), time.Time{})
	if err != nil {
		return err
	}
	r.overdue, r.moreOverdue = state.Due, state.MoreRows
	for name := range r.overdue {
		r.waits[name] = true
	}
	return nil
}

// readJobs reads what is known of each job, including jobs whose rows are all still to come.
func (r *reader) readJobs(ctx context.Context, tx *sqlx.Tx) error {
	r.paused, r.known, r.removed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	_, err := pg.Collect(ctx, tx, pg.ForecastJobs.In(r.schema), nil, func(row *sql.Rows, _ *struct{}) error {
		var name string
		var paused, known, removed bool
		var sla sql.NullInt64
		if err := row.Scan(&name, &paused, &known, &removed, &sla); err != nil {
			return err
		}
		if r.registry != nil && removed {
			_, here := r.registry.Lookup(name)
			removed = !here
		}
		r.paused[name], r.known[name], r.removed[name] = paused, known, removed && name != schedule.JobExec
		if sla.Valid {
			r.slas[name] = time.Duration(sla.Int64) * time.Microsecond
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the jobs: %w", err)
	}
	return nil
}

// state reports whether a run skips the rows of a job: the job is paused, or no run knows it. A job
// that only the past has counts as known.
func (r *reader) state(name string) (paused, unserved bool) {
	known := r.known[name]
	if r.registry != nil && !known {
		_, known = r.registry.Lookup(name)
		known = known || name == schedule.JobExec // every run has it
	}
	return r.paused[name], r.waits[name] && !known
}

// names returns the jobs that a slot may have rows of.
func (r *reader) names() []string {
	names := map[string]bool{}
	for name := range r.waits {
		names[name] = true
	}
	for name := range r.curves {
		names[name] = true
	}
	if len(r.coming) > 0 {
		names[schedule.JobExec] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// mostRead bounds the slots of the past that are read.
const mostRead = 20_000

// ranges returns the past slots that count: those at the same time of day as the coming slots, and
// the last day.
func (r *reader) ranges() (list [][2]time.Time) {
	last := [2]time.Time{r.now.Add(-day), r.now}
	if width := r.grid.Width(); day/width > MaxSlots {
		last[0] = r.now.Add(-MaxSlots * width)
	}
	list = append(list, last)
	length := min(r.to.Sub(r.begun()), day)
	read := int64(last[1].Sub(last[0]) / r.grid.Width())
	for days := 1; days <= lookBack && read < mostRead; days++ {
		from := r.begun().Add(-time.Duration(days) * day)
		to := from.Add(length)
		if !from.Before(last[0]) { // it lies in the last day
			continue
		}
		if to.After(last[0]) {
			to = last[0]
		}
		list = append(list, [2]time.Time{from, to})
		read += int64(to.Sub(from) / r.grid.Width())
	}
	return list
}

// readLedger reads slots of the past.
func (r *reader) readLedger(ctx context.Context, tx *sqlx.Tx, ranges [][2]time.Time) ([]*ran, error) {
	var from, to pq.StringArray
	for _, part := range ranges {
		from, to = append(from, part[0].Format(time.RFC3339Nano)), append(to, part[1].Format(time.RFC3339Nano))
	}
	list, err := pg.Collect(ctx, tx, pg.ForecastLedger.In(r.schema), []any{from, to},
		func(row *sql.Rows, to **ran) error {
			v := &ran{rows: map[string]float64{}, spent: map[string]time.Duration{}}
			var names pq.StringArray
			var rows, spent pq.Int64Array
			if err := row.Scan(pg.UTC(&v.slot), &v.kind, pg.Micros(&v.took), pg.Micros(&v.delay), &v.runners, &v.workers,
				&names, &rows, &spent); err != nil {
				return err
			}
			for i, name := range names {
				v.rows[name], v.spent[name] = float64(rows[i]), time.Duration(spent[i])*time.Microsecond
			}
			*to = v
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return list, nil
}

// readHistories reads samples of the rows that ended in the days that count, and of waiting rows.
func (r *reader) readHistories(ctx context.Context, tx *sqlx.Tx) ([]rowHistory, error) {
	from := r.now.Add(-lookBack * day)
	var history, waiting int64
	if err := pg.One(ctx, tx, pg.ForecastBlocks.In(r.schema), []any{from}, &history, &waiting); err != nil {
		return nil, fmt.Errorf("read how much history there is: %w", err)
	}
	var list []rowHistory
	var m pg.Message // Citus does not support parameters for a sample
	m.Add(pg.ForecastHistory.In(r.schema), []any{r.percent(history), from, r.now}, func(row *sql.Rows) error {
		var l rowHistory
		err := row.Scan(&l.job, &l.enqueuedAt, &l.firstSlot, &l.journal, &l.slot, &l.finishedAt, &l.removed, &l.exact)
		list = append(list, l)
		return err
	})
	m.Add(pg.ForecastJournals.In(r.schema), []any{r.percent(waiting)}, func(row *sql.Rows) error {
		var l rowHistory
		err := row.Scan(&l.job, &l.enqueuedAt, &l.firstSlot, &l.journal, &l.slot, &l.exact)
		list = append(list, l)
		return err
	})
	if err := m.Send(ctx, tx); err != nil {
		return nil, fmt.Errorf("read samples of history and of what waits: %w", err)
	}
	return list, nil
}

// percent returns, as a text, which part of the given number of blocks to read.
func (r *reader) percent(blocks int64) string {
	return strconv.FormatFloat(100*min(1, float64(r.sample)/float64(max(blocks, 1))), 'f', -1, 64)
}

// curvesOf returns the stays of rows by job.
func curvesOf(histories []rowHistory) map[string]*curve {
	curves := map[string]*curve{}
	for _, l := range histories {
		if l.job == schedule.JobExec {
			continue
		}
		for _, v := range l.stays() {
			if curves[l.job] == nil {
				curves[l.job] = &curve{}
			}
			hour := v.slot.UTC().Hour()
			curves[l.job][hour] = append(curves[l.job][hour], v)
		}
	}
	return curves
}

// curve returns the curve of a job, or an empty one if nothing is known of it.
func (r *reader) curve(job string) *curve {
	if c := r.curves[job]; c != nil {
		return c
	}
	return &curve{}
}
