package slots

import (
	"context"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/internal/permit"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// fresh is how long rows are taken to be as they were read: longer than the checks of a claim take that has the right size.
	fresh = 3 * time.Second
	// lookTimeout bounds what it takes to look again. A check whose rows cannot be looked for is done.
	lookTimeout = time.Second
)

// isGone tells whether the owners of all rows of a unit have cancelled or moved them since they were read, and drops those that are.
// Where checks are slow, or limited, rows wait for minutes. A check with a transaction finds it out when it locks its rows.
func (rd *round) isGone(u *unit) bool {
	r := rd.run
	ids, left := u.ids(), map[int64]bool{}
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	args := []any{r.slot, pq.Int64Array{u.number}, ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
	m.Add(pgsql.RowsLeft.In(r.schema), args, server.Into(left))
	ctx, cancel := context.WithTimeout(rd.claim.ctx, lookTimeout)
	defer cancel()
	if !r.readers.Enter(r.stop, ctx) { // however many checks wait, the run has the connections that it has
		return false
	}
	err := r.server.Commit(ctx, &m)
	r.readers.Leave()
	if err != nil {
		r.cfg.Logger.DebugContext(ctx, "rows that waited were not looked for", "check", u.String(), "error", err)
		return false
	}
	return !rd.keepRows(u, left)
}

// keepRows drops the other rows of a unit, and tells whether any of these is left.
func (rd *round) keepRows(u *unit, ids map[int64]bool) bool {
	rows := slices.DeleteFunc(slices.Clone(u.rows), func(row jobs.FutureJob) bool { return !ids[row.ID] })
	if len(rows) > 0 {
		rd.setRows(u, rows, nil)
	}
	return len(rows) > 0
}

// mayBegin has a check begin anew whose rows were looked for: where that took long its instant has passed, and it takes another.
func (rd *round) mayBegin(u *unit) bool {
	if permit.Late(u.at) {
		if !u.queue.door.Await(rd.claim.ctx) {
			return false
		}
	}
	rd.restart(u)
	return rd.run.stop.Err() == nil
}
