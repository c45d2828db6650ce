package stores

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// batchRows, batchBytes and batchSlots bound a page of a move. Each slot is a lock, and all
	// sessions of a server share some thousands of locks.
	batchRows  = 5000
	batchBytes = 8 << 20
	batchSlots = 500
)

// item is a row of future_job, or a schedule with its row if that waits. Rows are JSON; empty:
// there is none.
type item struct {
	key     string // chooses a store; empty: the row has none
	slot    time.Time
	job, id int64
	version string // of the row; empty: there is no row
	name    string // of the job
	paused  bool   // its job
	data    string

	schedule, scheduleVersion string // its id; empty: it is not a schedule
	definition, dropped       string
}

func (i item) size() int { return len(i.data) + len(i.definition) }

// rowsAfter returns the next rows after one, in the order of the slot index. field names the field
// of the payload with the key; empty: the key is the entity's.
func (s *Store) rowsAfter(ctx context.Context, after item, field string) ([]item, error) {
	args := []any{after.slot, after.job, after.id, batchRows, sql.NullString{String: field, Valid: field != ""}}
	return s.items(ctx, pg.StoreRows, args, func(row *sql.Rows, i *item) error {
		return row.Scan(&i.slot, &i.job, &i.id, &i.version, &i.name, &i.paused, &i.key, &i.data)
	})
}

// firstAfter returns the item at which rowsAfter begins for slots after an instant.
func firstAfter(at time.Time) item { return item{slot: at, job: math.MaxInt64, id: math.MaxInt64} }

// schedulesAfter returns the next schedules after one, in the order of their ids.
func (s *Store) schedulesAfter(ctx context.Context, id string) ([]item, error) {
	return s.items(ctx, pg.StoreSchedules, []any{id, batchRows}, func(row *sql.Rows, i *item) error {
		var dropped, version, data sql.NullString
		err := row.Scan(&i.schedule, &i.scheduleVersion, &i.definition, &dropped, pg.UTC(&i.slot), &i.job, &i.id,
			&version, &data, &i.paused)
		i.key, i.name, i.dropped, i.version, i.data = i.schedule, scheduleJob, dropped.String, version.String, data.String
		return err
	})
}

// scheduleJob is the job of the rows of schedules. A constant of its own avoids linking package
// schedule.
const scheduleJob = "schedule"

// items reads a page. The last item may exceed the bounds.
func (s *Store) items(
	ctx context.Context, stmt pg.Statement, args []any, scan func(row *sql.Rows, i *item) error,
) (list []item, err error) {
	err = pgsql.ReadTx(ctx, s.DB, func(tx *sqlx.Tx) error {
		list = nil
		var m pg.Message
		m.Do(pg.SlotIndexOnly.In(pgsql.Schema(s.Schema)))
		bytes, slots := 0, map[time.Time]bool{}
		m.Add(s.in(stmt), args, func(row *sql.Rows) error {
			var i item
			err := scan(row, &i)
			list = append(list, i)
			bytes, slots[i.slot] = bytes+i.size(), true
			if err == nil && (bytes > batchBytes || len(slots) > batchSlots) {
				return pg.ErrEnough
			}
			return err
		})
		if !pg.Several(pg.Sqlx(s.DB)) {
			return m.SendEach(ctx, tx)
		}
		return m.Send(ctx, tx)
	})
	return list, pg.ExplainMissing(err)
}
