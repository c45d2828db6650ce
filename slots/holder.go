package slots

import (
	"database/sql"
	"log/slog"
	"slices"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/row"
	pgsql "github.com/prescient-go/prescient/sql"
)

// lockPatience is how long rows wait for a lock of another session before the log names that session.
const lockPatience = 5 * time.Second

// vigil is how a claim waits for locks of other sessions.
type vigil struct {
	pause time.Duration // the last one
	since time.Time     // local monotonic instant of the first one
	told  bool          // the log has named a session
}

// next returns how long to wait before the claim tries again.
func (v *vigil) next() time.Duration {
	if v.pause == 0 {
		v.since = elapsed.Now()
	}
	v.pause = min(max(2*v.pause, againFirst), againEvery)
	return v.pause
}

// tell logs once which session holds up rows of a claim for a long time.
func (v *vigil) tell(r *run, c *claim) {
	if v.told || time.Since(v.since) < lockPatience || r.setting.Citus {
		return
	}
	ids := c.lockedRows()
	if len(ids) == 0 {
		return
	}
	var holder, mends string
	var since sql.NullTime
	var m pgsql.Message
	args := []any{r.slot, c.Jobs, ids[0], ids[len(ids)-1], ids, lockPatience.Microseconds()}
	m.Add(pgsql.RowHolder.In(r.schema), args, func(row *sql.Rows) error { return row.Scan(&holder, &since, &mends) })
	if !r.readers.Enter(r.stop, c.ctx) {
		return
	}
	err := r.server.Commit(c.ctx, &m)
	r.readers.Leave()
	if err != nil || holder == "" {
		return
	}
	v.told = true
	attrs := []any{slog.Time("slot", r.slot), slog.Any("jobs", r.records.Names(c.Jobs)), slog.Int("rows", len(ids)), slog.String("holder", holder), slog.String("to_end_it", mends)}
	if since.Valid {
		attrs = append(attrs, slog.Time("since", since.Time.UTC()))
	}
	r.cfg.Logger.WarnContext(r.work, "rows wait for a lock of another session", attrs...)
}

// lockedRows returns the ids of the rows of a claim that wait for a lock, in order.
func (c *claim) lockedRows() pq.Int64Array {
	ids := pq.Int64Array(row.IDs(c.Locked))
	for _, u := range c.again {
		switch {
		case !u.waited: // it waits for a place
		case u.isGroup():
			ids = append(ids, u.members...)
		default:
			ids = append(ids, u.ids()...)
		}
	}
	slices.Sort(ids)
	return ids
}
