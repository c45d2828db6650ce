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
	// fresh is how long rows are taken to be as they were read. The checks of a claim of the right size take less.
	fresh = 3 * time.Second
	// lookTimeout bounds the time to look again. If the look fails, the check is done.
	lookTimeout = time.Second
)

// isGone drops the rows of a unit that their owners have cancelled or moved since they were read, and reports whether
// none is left. Rows wait for minutes if checks are slow or limited. A check with a transaction finds out when it locks
// its rows.
func (rd *round) isGone(u *unit) bool {
	r := rd.run
	ids, left := u.ids(), map[int64]bool{}
	var m pgsql.Message
	m.Do(pgsql.SlotIndexOnly.In(r.schema))
	args := []any{r.slot, pq.Int64Array{u.number}, ids[0], ids[len(ids)-1], pq.Int64Array(ids)}
	m.Add(pgsql.RowsLeft.In(r.schema), args, server.Into(left))
	ctx, cancel := context.WithTimeout(rd.claim.ctx, lookTimeout)
	defer cancel()
	if !r.readers.Enter(r.stop, ctx) { // however many checks wait, the run has a fixed number of connections
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

// keepRows drops all other rows of a unit, and reports whether any is left.
func (rd *round) keepRows(u *unit, ids map[int64]bool) bool {
	rows := slices.DeleteFunc(slices.Clone(u.rows), func(row jobs.FutureJob) bool { return !ids[row.ID] })
	if len(rows) > 0 {
		rd.setRows(u, rows, nil)
	}
	return len(rows) > 0
}

// mayBegin begins a check anew after the look for its rows. If that took long, the check takes another instant of its rate.
func (rd *round) mayBegin(u *unit) bool {
	if permit.Late(u.at) {
		if !u.queue.door.Await(rd.claim.ctx) {
			return false
		}
	}
	rd.restart(u)
	return rd.run.stop.Err() == nil
}
