package claim

import (
	"context"
	"database/sql"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/row"
)

// Claim claims the next rows of jobs, at most rows, and returns the jobs that have rows left. It returns nil if there
// are no rows.
func (s *Session) Claim(numbers []int64, rows int64) (c *Claim, left []int64, err error) {
	c, err = s.obtain(pg.ClaimRows, func(c *Claim, row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last, &c.Rows, (*pq.Int64Array)(&left))
	}, pq.Int64Array(numbers), rows)
	return c, left, err
}

// TakeOver takes over a claim whose lease has ended, or its rows of some jobs. It returns nil if there is none.
func (s *Session) TakeOver(numbers []int64) (*Claim, error) {
	return s.obtain(pg.ClaimTakeOver, func(c *Claim, row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last)
	}, pq.Int64Array(numbers))
}

// obtain gets a claim under a lease. It asks for the same claim again if the reply is lost.
func (s *Session) obtain(
	stmt pg.Statement, scan func(c *Claim, row *sql.Rows) error, of ...any,
) (*Claim, error) {
	var m pg.Message
	c := &Claim{Lease: NewLease()}
	args := append([]any{s.Slot, s.Entry.Kind, c.Token, s.Runner, s.Server.Lease.Microseconds()}, of...)
	m.Add(stmt.In(s.Server.Schema), args, func(row *sql.Rows) error { return scan(c, row) })
	err := s.send(s.Stop, func() error {
		c.Extend(elapsed.Now(), s.Server.Lease)
		return s.Server.Commit(s.Work, &m)
	})
	if err != nil || len(c.Jobs) == 0 {
		return nil, err
	}
	return c, nil
}

// send calls fn when no other call has a connection, and again while the database cannot do it, until ctx ends.
func (s *Session) send(ctx context.Context, fn func() error) error {
	return s.Server.Retry(ctx, db.Retryable, func() error {
		s.Turn <- struct{}{}
		defer func() { <-s.Turn }()
		return fn()
	})
}

// Rows are rows as they were read.
type Rows struct {
	List    []jobs.FutureJob
	Numbers []int64 // of the job of each
	Bytes   int64
	More    bool      // there are further rows
	Cut     bool      // further rows were not read, because Most are
	At      time.Time // local monotonic instant before they were read
}

// Read reads rows of a claim, about expected ones, until it has enough bytes. It leaves out the rows that Postpone and
// SkipUnreadable mark.
func (s *Session) Read(c *Claim, expected int64) (rows Rows, err error) {
	var m pg.Message
	m.Do(pg.SlotIndexOnly.In(s.Server.Schema))
	scan := row.Scan(s.Slot, s.Jobs.Name, func(number int64, job jobs.FutureJob) error {
		switch {
		case c.postponed[job.ID]:
			return nil
		case rows.Bytes > row.AtOnce:
			rows.More = true
			return pg.ErrEnough
		case s.Most > 0 && s.taken+int64(len(rows.List)) >= s.Most:
			rows.Cut = true
			return pg.ErrEnough
		}
		rows.List, rows.Numbers = append(rows.List, job), append(rows.Numbers, number)
		rows.Bytes += row.SizeOf(&job)
		return nil
	})
	for _, ids := range c.readable() {
		m.Add(pg.PageRead.In(s.Server.Schema), []any{s.Slot, c.Jobs, ids[0], ids[1]}, scan)
	}
	expected = min(expected, row.MostAtOnce)
	err = s.send(c.Ctx, func() error {
		rows = Rows{List: make([]jobs.FutureJob, 0, expected), Numbers: make([]int64, 0, expected), At: elapsed.Now()}
		err := s.Server.Commit(s.Work, &m)
		if err == nil {
			s.taken += int64(len(rows.List))
		}
		return err
	})
	return rows, err
}

// lookTimeout bounds the time to look again. If the look fails, the check is done.
const lookTimeout = time.Second

// Remaining returns which rows of a job are still in the slot. ids are in order.
func (s *Session) Remaining(ctx context.Context, number int64, ids []int64) (left map[int64]bool, err error) {
	left = map[int64]bool{}
	var m pg.Message
	m.Do(pg.SlotIndexOnly.In(s.Server.Schema))
	args := []any{s.Slot, pq.Int64Array{number}, ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
	m.Add(pg.RowsLeft.In(s.Server.Schema), args, db.Into(left))
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err = s.InTurn(ctx, func() error { return s.Server.Commit(ctx, &m) })
	return left, err
}

// Busy returns which rows of a claim another transaction has locked. ids are in order.
func (s *Session) Busy(c *Claim, ids []int64) (busy map[int64]bool, err error) {
	var m pg.Message
	m.Do(pg.SlotIndexOnly.In(s.Server.Schema))
	_, busy = s.AddLock(&m, c.Jobs, ids)
	err = s.send(c.Ctx, func() error {
		clear(busy)
		return s.Server.Commit(c.Ctx, &m)
	})
	return busy, err
}

// AddLock adds the statement that locks rows. It fills free with the rows that it has locked, and busy with those that
// another transaction has. ids are in order.
func (s *Session) AddLock(m *pg.Message, numbers pq.Int64Array, ids []int64) (free, busy map[int64]bool) {
	free, busy = map[int64]bool{}, map[int64]bool{}
	args := []any{s.Slot, numbers, ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
	m.Add(pg.RowsLock.In(s.Server.Schema), args, func(row *sql.Rows) error {
		var id int64
		var locked bool
		err := row.Scan(&id, &locked)
		if locked {
			free[id] = true
		} else {
			busy[id] = true
		}
		return err
	})
	return free, busy
}

// InTurn calls fn when no claim or read has a connection. It returns an error if ctx or the run ends first.
func (s *Session) InTurn(ctx context.Context, fn func() error) error {
	select {
	case s.Turn <- struct{}{}:
		defer func() { <-s.Turn }()
		return fn()
	case <-s.Stop.Done():
		return context.Cause(s.Stop)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
