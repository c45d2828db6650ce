package slots

import (
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	pgsql "github.com/prescient-go/prescient/sql"
)

// lockTryPatience is how long a run tries an advisory lock before it says who has it.
const lockTryPatience = 3 * time.Second

// lockWait notes for how long a run has waited for an advisory lock. Any login may take that lock, and a run only
// tries to, so no session is seen waiting. It follows one lock at a time. The zero value is ready for use.
type lockWait struct {
	mu    sync.Mutex
	lock  string         // its name
	since time.Time      // local monotonic instant; zero: it follows no lock
	told  map[int64]bool // sessions that were named in the log
}

// wait notes that another session has a lock, and names that session in the log if this has lasted long.
func (w *lockWait) wait(r *run, lock string, about slog.Attr) {
	if !w.isLong(lock) {
		return
	}
	var m pgsql.Message
	m.Add(pgsql.AdvisoryHolder.In(r.schema), []any{lock}, func(row *sql.Rows) error {
		var pid int64
		var holder, mends string
		err := row.Scan(&pid, &holder, &mends)
		if err == nil && w.isNew(pid) {
			r.cfg.Logger.LogAttrs(r.work, slog.LevelWarn, "waiting for a lock that another session has",
				slog.Time("slot", r.slot), about, slog.String("holder", holder), slog.String("to_end_it", mends))
		}
		return err
	})
	if err := m.Read(r.work, r.server.DB); err != nil {
		r.cfg.Logger.DebugContext(r.work, "the holder of a lock is not known", "lock", lock, "error", err)
	}
}

// isLong reports whether the run has waited for a lock for longer than lockTryPatience, once for each such time.
func (w *lockWait) isLong(lock string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.lock, w.since = lock, elapsed.Now()
	}
	if w.lock != lock || time.Since(w.since) < lockTryPatience {
		return false
	}
	w.since = time.Time{}
	return true
}

// isNew reports whether the log has not named a session yet.
func (w *lockWait) isNew(pid int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told[pid] {
		return false
	}
	if w.told == nil {
		w.told = map[int64]bool{}
	}
	w.told[pid] = true
	return true
}

// got notes that the run has taken a lock.
func (w *lockWait) got(lock string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lock == lock {
		w.since = time.Time{}
	}
}
