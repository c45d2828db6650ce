// Package page claims the next rows of jobs, or takes rows over from a dead runner, and reads rows within bounds. It
// knows no functions and no outcomes.
package page

import (
	"context"
	"database/sql"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/row"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Reader claims and reads the rows of a slot for a run. It is safe for concurrent use: one call at a time has a
// connection.
type Reader struct {
	Server *server.Server
	Slot   time.Time
	Kind   string                     // slots.Kind
	Runner string                     // its name
	Stop   context.Context            // ends when nothing more may be claimed
	Work   context.Context            // of statements
	Jobs   map[int64]*jobs.Definition // of the slot, by number
	Most   int64                      // rows to read; 0: any number

	turn  chan struct{} // holds a value while a call has a connection
	taken int64         // rows that were read; only the call with the connection uses it
}

// NewReader returns a Reader. Set Jobs before it reads.
func NewReader(r Reader) *Reader {
	r.turn = make(chan struct{}, 1)
	return &r
}

// Claim is rows that a run has claimed.
type Claim struct {
	Jobs        pq.Int64Array // numbers
	First, Last int64         // ids
	Rows        int64         // how many there are; 0: not known
	Left        pq.Int64Array // the jobs that have rows left to claim
}

// Next claims the next rows of jobs under a lease, at most rows. A Claim without jobs has none.
func (r *Reader) Next(l *lease.Lease, numbers []int64, rows int64) (c Claim, err error) {
	err = r.obtain(l, pgsql.ClaimRows, func(row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last, &c.Rows, &c.Left)
	}, pq.Int64Array(numbers), rows)
	return c, err
}

// TakeOver takes over a claim whose lease has ended, or its rows of some jobs. A Claim without jobs has none.
func (r *Reader) TakeOver(l *lease.Lease, numbers []int64) (c Claim, err error) {
	err = r.obtain(l, pgsql.ClaimTakeOver, func(row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last)
	}, pq.Int64Array(numbers))
	return c, err
}

// obtain gets a claim. It asks for the same claim again if the reply is lost.
func (r *Reader) obtain(l *lease.Lease, stmt pgsql.Statement, scan func(row *sql.Rows) error, of ...any) error {
	var m pgsql.Message
	args := append([]any{r.Slot, r.Kind, l.Token, r.Runner, r.Server.Lease.Microseconds()}, of...)
	m.Add(stmt.In(r.Server.Schema), args, scan)
	return r.send(r.Stop, func() error {
		l.Extend(elapsed.Now(), r.Server.Lease)
		return r.Server.Commit(r.Work, &m)
	})
}

// send calls fn when no other call has a connection, and again while the database cannot do it, until ctx ends.
func (r *Reader) send(ctx context.Context, fn func() error) error {
	return r.Server.Retry(ctx, server.Passes, func() error {
		r.turn <- struct{}{}
		defer func() { <-r.turn }()
		return fn()
	})
}

// Rows are rows as they were read.
type Rows struct {
	List    []jobs.FutureJob
	Numbers []int64 // of the job of each
	Bytes   int64
	More    bool // there are further rows
	Cut     bool // further rows were not read, because Most are
	At      time.Time
}

// Read reads the rows of jobs in ranges of ids, about expected ones, until it has enough bytes. It leaves out those in
// without. At is the local monotonic instant before it.
func (r *Reader) Read(
	ctx context.Context, numbers pq.Int64Array, ranges [][2]int64, without map[int64]bool, expected int64,
) (rows Rows, err error) {
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.Server.Schema))
	scan := r.scan(func(number int64, job jobs.FutureJob) error {
		switch {
		case without[job.ID]:
			return nil
		case rows.Bytes > row.AtOnce:
			rows.More = true
			return pgsql.ErrEnough
		case r.Most > 0 && r.taken+int64(len(rows.List)) >= r.Most:
			rows.Cut = true
			return pgsql.ErrEnough
		}
		rows.List, rows.Numbers = append(rows.List, job), append(rows.Numbers, number)
		rows.Bytes += row.SizeOf(&job)
		return nil
	})
	for _, ids := range ranges {
		m.Add(pgsql.PageRead.In(r.Server.Schema), []any{r.Slot, numbers, ids[0], ids[1]}, scan)
	}
	expected = min(expected, row.MostAtOnce)
	err = r.send(ctx, func() error {
		rows = Rows{List: make([]jobs.FutureJob, 0, expected), Numbers: make([]int64, 0, expected), At: elapsed.Now()}
		err := r.Server.Commit(r.Work, &m)
		if err == nil {
			r.taken += int64(len(rows.List))
		}
		return err
	})
	return rows, err
}

// scan reads a row of page_read.
func (r *Reader) scan(take func(number int64, job jobs.FutureJob) error) func(row *sql.Rows) error {
	return row.Scan(r.Slot, func(number int64) string { return r.Jobs[number].Name }, take)
}

// lookTimeout bounds the time to look again. If the look fails, the check is done.
const lookTimeout = time.Second

// Remaining returns which rows of a job are still in the slot. ids are in order.
func (r *Reader) Remaining(ctx context.Context, number int64, ids []int64) (left map[int64]bool, err error) {
	left = map[int64]bool{}
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.Server.Schema))
	args := []any{r.Slot, pq.Int64Array{number}, ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
	m.Add(pgsql.RowsLeft.In(r.Server.Schema), args, server.Into(left))
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err = r.InTurn(ctx, func() error { return r.Server.Commit(ctx, &m) })
	return left, err
}

// InTurn calls fn when no other call has a connection. It returns an error if ctx or the run ends first.
func (r *Reader) InTurn(ctx context.Context, fn func() error) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
		return fn()
	case <-r.Stop.Done():
		return context.Cause(r.Stop)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
