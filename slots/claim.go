package slots

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/lease"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/record"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// claim is a right to rows of the slot, with the state of the goroutine that works on it.
type claim struct {
	record.Claim
	lane  *lane   // the lane that counts its rows
	lanes []*lane // of its jobs: several if it was taken over from a binary that had these jobs in one lane

	ctx context.Context                     // of its checks; ends when the lease is lost
	end func(err error, attrs ...slog.Attr) // of its span

	undone bool // rows were not checked, and are left to other runners
	kept   footprint
	waits  waiting
	read   time.Time      // local monotonic instant at which its rows were read
	again  []*unit        // units to check once another transaction's lock is gone, or a permit is free
	shares permit.Holding // that it uses
	vigil  vigil

	queued   atomic.Int64 // rows that have not started
	troubled atomic.Pointer[time.Time]
	round    atomic.Pointer[round] // the running checks
}

// claim claims rows of a lane and starts the work on them. It returns false if there were none.
func (r *run) claim(l *lane) (bool, error) {
	if r.cfg.ClaimDelay > 0 {
		delay := time.Duration(hostLoad() * float64(r.cfg.ClaimDelay))
		if !server.Sleep(r.stop, min(delay, maxDelay)) {
			return false, nil
		}
	}
	var rows int64
	var rest pq.Int64Array
	c := &claim{Claim: record.Claim{Lease: lease.New()}, lane: l, lanes: []*lane{l}, shares: permit.Holding{}}
	if ok, err := r.makeRoom(c); !ok {
		return false, err
	}
	numbers := l.turn.First()
	err := r.obtain(c, pgsql.ClaimRows, func(row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last, &rows, &rest)
	}, pq.Int64Array(numbers), r.turns().Want(l.turn))
	if err != nil || len(c.Jobs) == 0 {
		r.giveUp(c)
	}
	if err != nil {
		return false, err
	}
	l.turn.Claimed(rest)
	if len(c.Jobs) == 0 {
		return false, nil
	}
	c.Closes = r.going.Load() == 0 && !r.waits() && !r.sel.leave && r.sel.limit == 0
	r.begin(c, rows)
	return true, nil
}

// takeOver takes over a claim whose lease has ended, or its rows of the jobs that are known here.
func (r *run) takeOver() (bool, error) {
	if r.limitReached() || len(r.known) == 0 {
		return false, nil
	}
	c := &claim{Claim: record.Claim{Lease: lease.New()}, shares: permit.Holding{}}
	err := r.obtain(c, pgsql.ClaimTakeOver, func(row *sql.Rows) error {
		return row.Scan(&c.Jobs, &c.First, &c.Last)
	}, pq.Int64Array(slices.Collect(maps.Keys(r.known))))
	if err != nil || len(c.Jobs) == 0 {
		return false, err
	}
	for _, number := range c.Jobs {
		if l := r.known[number].lane; !slices.Contains(c.lanes, l) {
			c.lanes = append(c.lanes, l)
		}
	}
	c.lane = c.lanes[0]
	r.report.takeOver()
	r.begin(c, 0)
	return true, nil
}

// obtain gets a claim. It asks for the same claim again if the reply is lost.
func (r *run) obtain(c *claim, stmt pgsql.Statement, scan func(row *sql.Rows) error, of ...any) error {
	var m pgsql.Message
	args := append([]any{r.slot, string(r.sel.kind), c.Token, r.cfg.Name, r.cfg.Lease.Microseconds()}, of...)
	m.Add(stmt.In(r.schema), args, scan)
	return r.server.Retry(r.stop, server.Passes, func() error {
		r.readers <- struct{}{}
		defer r.readers.Leave()
		c.Extend(elapsed.Now(), r.cfg.Lease)
		return r.server.Commit(r.work, &m)
	})
}

// begin starts the work on a claim.
func (r *run) begin(c *claim, rows int64) {
	ctx, end := engine.StartSpan(r.checks, r.cfg.Registry, "claim",
		slog.Time("slot", r.slot), slog.Int64("claim", c.Token), slog.Any("jobs", r.records.Names(c.Jobs)), slog.Int64("rows", rows))
	c.ctx = c.Begin(ctx, c.limits()...)
	c.Watch = c.abandonOverdue
	c.end = end
	r.enqueue(c, rows)
	r.leases.Add(c.Lease)
	r.going.Add(1)
	go func() {
		defer r.changed()
		defer r.going.Add(-1)
		r.workOn(c)
	}()
}

// enqueue counts rows that wait to start.
func (r *run) enqueue(c *claim, rows int64) {
	c.queued.Add(rows)
	n, half := c.lane.load.queued.Add(rows), c.lane.load.size.Load()/2
	if n <= half && n-rows > half {
		r.changed()
	}
}

// limits returns the limits of the jobs of a claim, whose permits end with its lease.
func (c *claim) limits() (list []lease.Companion) {
	for _, l := range c.lanes {
		if l.limit != nil {
			list = append(list, l.limit)
		}
	}
	return list
}

func (c *claim) abandonOverdue() {
	if rd := c.round.Load(); rd != nil {
		rd.abandonOverdue()
	}
}
