package slots

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// read reads rows of a claim that are still in the slot, as units of work. more reports that there are further rows.
func (r *run) read(c *claim) (units []*unit, more bool, err error) {
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	var rows []jobs.FutureJob
	var numbers []int64
	var bytes int64
	scan := r.scanRow(func(number int64, job jobs.FutureJob) error {
		switch {
		case c.Left[job.ID]:
			return nil
		case bytes > readAtOnce:
			more = true
			return pgsql.ErrEnough
		case r.sel.limit > 0 && r.memory.taken.Load()+int64(len(rows)) >= r.sel.limit:
			c.undone = true
			return pgsql.ErrEnough
		}
		rows, numbers = append(rows, job), append(numbers, number)
		bytes += sizeOf(&job)
		return nil
	})
	for _, ids := range c.Readable() {
		m.Add(pgsql.PageRead.In(r.schema), []any{r.slot, c.Jobs, ids[0], ids[1]}, scan)
	}
	err = r.server.Retry(c.ctx, server.Passes, func() error {
		r.readers <- struct{}{}
		defer r.readers.Leave()
		expected := min(c.queued.Load(), readAtOnce/rowSize)
		c.read = elapsed.Now()
		rows, numbers, bytes, more = make([]jobs.FutureJob, 0, expected), make([]int64, 0, expected), 0, false
		return r.server.Commit(r.work, &m)
	})
	if r.records.Refuses(err) {
		if err = r.records.RecordUnreadable(r.work, c.ctx, &c.Claim, err); err != nil {
			return nil, false, err
		}
		return r.read(c)
	}
	if len(rows) > 0 {
		c.lane.load.fits.Store(max(1, readAtOnce*int64(len(rows))/bytes))
	}
	r.memory.taken.Add(int64(len(rows)))
	r.keep(c, int64(len(rows)), bytes)
	r.enqueue(c, int64(len(rows))-c.queued.Load())
	if err != nil {
		return nil, more, err
	}
	return r.units(c, rows, numbers), more, nil
}

// rowSize is about how many bytes a row takes without its texts.
const rowSize = 500

// sizeOf is about how many bytes a row takes.
func sizeOf(j *jobs.FutureJob) int64 {
	return int64(rowSize + len(j.Payload) + len(j.EntityKey) + len(j.ItemKey) + len(j.GroupKey) + len(j.LastError) + len(j.TraceParent))
}

// scanRow reads a row of page_read or group_read.
func (r *run) scanRow(take func(number int64, job jobs.FutureJob) error) func(row *sql.Rows) error {
	var id, number, checks, failures, spent, enqueued integer
	var item, group, lastError, trace sql.NullString
	var first sql.NullInt64
	var j jobs.FutureJob
	return func(row *sql.Rows) error {
		j = jobs.FutureJob{}
		err := row.Scan(&id, &number, &j.EntityName, &j.EntityKey, &item, &group, &first, &checks, &failures,
			&lastError, &spent, (*[]byte)(&j.Payload), &enqueued, &j.EnqueuedBy, &trace)
		if err != nil {
			return fmt.Errorf("read future job: %w", err)
		}
		j.JobExec = r.known[int64(number)].def.Name
		j.CheckCount, j.ErrorCount = int(checks), int(failures)
		j.ItemKey, j.Anonymous, j.GroupKey, j.LastError = item.String, !item.Valid, group.String, lastError.String
		j.TraceParent = trace.String
		j.EnqueuedAt, j.TotalRuntime = time.UnixMicro(int64(enqueued)).UTC(), time.Duration(spent)*time.Microsecond
		if first.Valid {
			j.FirstCheckAt = time.UnixMicro(first.Int64).UTC()
		} else {
			j.FirstCheckAt = r.slot
		}
		j.ID, j.NextCheckAt = int64(id), r.slot
		return take(int64(number), j)
	}
}

// integer scans without the reflection that database/sql needs for an int64, and without its text for an int: a row has
// six integers. Null is 0.
type integer int64

func (n *integer) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*n = integer(v)
	case nil:
		*n = 0
	default:
		return fmt.Errorf("%T is no integer", value)
	}
	return nil
}
