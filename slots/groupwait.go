package slots

import (
	"database/sql"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	pgsql "github.com/prescient-go/prescient/sql"
)

// groupPatience is how long a run waits for the lock of a group before it says who has it.
const groupPatience = 3 * time.Second

// groupWait notes for how long a run has waited for the lock of a group. Any login may take that lock, and a run only
// tries to, so no session is seen waiting. It follows one group at a time. The zero value is ready for use.
type groupWait struct {
	mu    sync.Mutex
	group string
	since time.Time      // local monotonic instant; zero: it follows no group
	told  map[int64]bool // sessions that were named in the log
}

// wait notes that another session has the lock of a group, and names that session if this has lasted long.
func (w *groupWait) wait(r *run, group string) {
	if !w.isLong(group) {
		return
	}
	var m pgsql.Message
	m.Add(pgsql.GroupHolder.In(r.schema), []any{group}, func(row *sql.Rows) error {
		var pid int64
		var holder, mends string
		err := row.Scan(&pid, &holder, &mends)
		if err == nil && w.isNew(pid) {
			r.cfg.Logger.WarnContext(r.work, "waiting for the lock of a group", "slot", r.slot, "group", group, "holder", holder, "to_end_it", mends)
		}
		return err
	})
	if err := m.Read(r.work, r.server.DB); err != nil {
		r.cfg.Logger.DebugContext(r.work, "the holder of the lock of a group is not known", "group", group, "error", err)
	}
}

// isLong reports whether the run has waited for a group for longer than groupPatience, once for each such time.
func (w *groupWait) isLong(group string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.group, w.since = group, elapsed.Now()
	}
	if w.group != group || time.Since(w.since) < groupPatience {
		return false
	}
	w.since = time.Time{}
	return true
}

// isNew reports whether the log has not named a session yet.
func (w *groupWait) isNew(pid int64) bool {
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

// got notes that the run has taken the lock of a group.
func (w *groupWait) got(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.group == group {
		w.since = time.Time{}
	}
}
