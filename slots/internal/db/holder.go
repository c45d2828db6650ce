package db

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
)

const (
	// minPause and maxPause bound the pauses between two tries of a claim, which double.
	minPause, maxPause = 10 * time.Millisecond, time.Second
	// rowPatience is how long rows wait for a lock of another session before the log names that session.
	rowPatience = 5 * time.Second
)

// RowWait is the wait of a claim for rows that other sessions have locked. One goroutine uses it. The zero value is
// ready for use.
type RowWait struct {
	pause time.Duration   // the last one
	since time.Time       // local monotonic instant of the first one, or at which LogHolder last found a session
	told  map[string]bool // sessions that the log has named, by the statement that ends each
}

// Pause returns how long to wait before the claim tries again.
func (w *RowWait) Pause() time.Duration {
	if w.pause == 0 {
		w.since = elapsed.Now()
	}
	w.pause = min(max(2*w.pause, minPause), maxPause)
	return w.pause
}

// IsLong reports whether the claim has waited for long since LogHolder last found a session. By then that session may
// have ended, and another one may have a lock of other rows.
func (w *RowWait) IsLong() bool { return time.Since(w.since) >= rowPatience }

// LogHolder finds a session that has locked rows of a slot, and returns it with the statement that ends it. It logs
// each session once, and notes it in the ledger. It returns nothing if it finds no session, and on Citus, where the
// session is on a worker.
func (w *RowWait) LogHolder(
	ctx context.Context, s *Server, slot time.Time, numbers pq.Int64Array, names []string, ids pq.Int64Array,
) (holder, mends string) {
	if len(ids) == 0 || s.Citus {
		return "", ""
	}
	var since sql.NullTime
	var m pg.Message
	args := []any{slot, numbers, ids[0], ids[len(ids)-1], ids, rowPatience.Microseconds()}
	m.Add(pg.RowHolder.In(s.Schema), args, func(row *sql.Rows) error { return row.Scan(&holder, &since, &mends) })
	if err := s.Commit(ctx, &m); err != nil || holder == "" {
		return "", ""
	}
	w.since = elapsed.Now()
	if w.told[mends] {
		return holder, mends
	}
	if w.told == nil {
		w.told = map[string]bool{}
	}
	w.told[mends] = true
	attrs := []slog.Attr{
		slog.Time("slot", slot), slog.Any("jobs", names), slog.Int("rows", len(ids)),
		slog.String("holder", holder), slog.String("to_end_it", mends),
	}
	if since.Valid {
		attrs = append(attrs, slog.Time("since", since.Time.UTC()))
	}
	var told pg.Message
	told.Add(pg.SlotWaitedFor.In(s.Schema), []any{slot, holder}, Nothing)
	if err := s.Commit(ctx, &told); err != nil {
		s.Logger.WarnContext(ctx, "the ledger does not say which lock the slot waits for", "error", err)
	}
	s.Logger.LogAttrs(ctx, slog.LevelWarn, "rows wait for a lock of another session", attrs...)
	return holder, mends
}
