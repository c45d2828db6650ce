package db

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
)

// advisoryPatience is how long a run tries an advisory lock before it says who has it.
const advisoryPatience = 3 * time.Second

// Advisory notes for how long a run has waited for an advisory lock. Any login may take that lock, and a run only
// tries to, so no session is seen waiting. It follows one lock at a time. It is safe for concurrent use.
type Advisory struct {
	server *Server
	slot   time.Time

	mu    sync.Mutex
	lock  string         // its name
	since time.Time      // local monotonic instant; zero: it follows no lock
	told  map[int64]bool // sessions that were named in the log
}

// NewAdvisory returns an Advisory for a run of a slot.
func NewAdvisory(s *Server, slot time.Time) *Advisory {
	return &Advisory{server: s, slot: slot, told: map[int64]bool{}}
}

// Wait notes that another session has a lock, and names that session in the log if this has lasted long.
func (a *Advisory) Wait(ctx context.Context, lock string, about slog.Attr) {
	if !a.isLong(lock) {
		return
	}
	s := a.server
	var m pg.Message
	m.Add(pg.AdvisoryHolder.In(s.Schema), []any{lock}, func(row *sql.Rows) error {
		var pid int64
		var holder, mends string
		err := row.Scan(&pid, &holder, &mends)
		if err == nil && a.isNew(pid) {
			s.Logger.LogAttrs(ctx, slog.LevelWarn, "waiting for a lock that another session has",
				slog.Time("slot", a.slot), about, slog.String("holder", holder), slog.String("to_end_it", mends))
		}
		return err
	})
	if err := m.Read(ctx, s.DB); err != nil {
		s.Logger.DebugContext(ctx, "the holder of a lock is not known", "lock", lock, "error", err)
	}
}

// isLong reports whether the run has waited for a lock for longer than advisoryPatience, once for each such time.
func (a *Advisory) isLong(lock string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since.IsZero() {
		a.lock, a.since = lock, elapsed.Now()
	}
	if a.lock != lock || time.Since(a.since) < advisoryPatience {
		return false
	}
	a.since = time.Time{}
	return true
}

// isNew reports whether the log has not named a session yet.
func (a *Advisory) isNew(pid int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.told[pid]
	a.told[pid] = true
	return !known
}

// Got notes that the run has taken a lock.
func (a *Advisory) Got(lock string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lock == lock {
		a.since = time.Time{}
	}
}
