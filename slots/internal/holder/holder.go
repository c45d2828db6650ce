// Package holder names in the log the sessions whose locks a run waits for: locks of rows, and advisory locks. It knows
// rows by their ids alone.
package holder

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	// first and every bound the pauses between two tries of a claim, which double.
	first, every = 10 * time.Millisecond, time.Second
	// rowPatience is how long rows wait for a lock of another session before the log names that session.
	rowPatience = 5 * time.Second
)

// Vigil is how a claim waits for locks of other sessions. One goroutine uses it. The zero value is ready for use.
type Vigil struct {
	pause time.Duration // the last one
	since time.Time     // local monotonic instant of the first one
	told  bool          // the log has named a session
}

// Next returns how long to wait before the claim tries again.
func (v *Vigil) Next() time.Duration {
	if v.pause == 0 {
		v.since = elapsed.Now()
	}
	v.pause = min(max(2*v.pause, first), every)
	return v.pause
}

// IsLong reports whether the claim has waited for long, until Tell has named a session.
func (v *Vigil) IsLong() bool { return !v.told && time.Since(v.since) >= rowPatience }

// Tell logs which session has locked rows of a slot. It does nothing on Citus, where the session is on a worker.
func (v *Vigil) Tell(
	ctx context.Context, s *server.Server, slot time.Time, numbers pq.Int64Array, names []string, ids pq.Int64Array,
) {
	if len(ids) == 0 || s.Citus {
		return
	}
	var holder, mends string
	var since sql.NullTime
	var m pgsql.Message
	args := []any{slot, numbers, ids[0], ids[len(ids)-1], ids, rowPatience.Microseconds()}
	m.Add(pgsql.RowHolder.In(s.Schema), args, func(row *sql.Rows) error { return row.Scan(&holder, &since, &mends) })
	if err := s.Commit(ctx, &m); err != nil || holder == "" {
		return
	}
	v.told = true
	attrs := []slog.Attr{
		slog.Time("slot", slot), slog.Any("jobs", names), slog.Int("rows", len(ids)),
		slog.String("holder", holder), slog.String("to_end_it", mends),
	}
	if since.Valid {
		attrs = append(attrs, slog.Time("since", since.Time.UTC()))
	}
	s.Logger.LogAttrs(ctx, slog.LevelWarn, "rows wait for a lock of another session", attrs...)
}
