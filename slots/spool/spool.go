package spool

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
)

// Config of a Spool. Dir must be set; every other zero field means its default.
type Config struct {
	// Dir is the directory of the spool, on a local file system. It must exist.
	Dir string
	// Grid must have a width of whole minutes, since the name of a slot's directory ends in minutes. Default:
	// grid.Default.
	Grid grid.Grid
	// Workers is how many checks run at once. Default slots.DefaultWorkers.
	Workers int
	// Grace is what running checks get to finish when the run is stopped, and what a check gets between the SIGTERM
	// of its timeout and SIGKILL. Default slots.DefaultGrace; negative: none.
	Grace time.Duration
	// Early is how long before a boundary a run waits for it; earlier, it belongs to the slot before. Default
	// slots.DefaultEarly; negative: none. Never more than half the width.
	Early time.Duration
	// Now is the clock that slots are compared with, for a replay of the past or the future. Default: the machine's.
	Now func() time.Time
	// Logger gets a line for every check that fails and everything that is not run. Default: slog.Default().
	Logger *slog.Logger
}

// clock is the machine's. Without a database nobody else can say what time it is; it measures, too.
var clock = time.Now //nolint:forbidigo // the only clock there is, read here alone

// Spool is a directory with a directory for each slot. It is safe for concurrent use, also by several processes.
type Spool struct {
	cfg    Config
	dir    string // absolute
	runner string // names this process in what it writes
}

// Open returns the spool of a directory that exists. It writes nothing.
func Open(cfg Config) (*Spool, error) {
	if cfg.Grid.Width()%time.Minute != 0 {
		return nil, fmt.Errorf("open spool: width %s: must be whole minutes, as the name of a slot's directory ends in minutes", cfg.Grid)
	}
	cfg.Workers = cmp.Or(cfg.Workers, slots.DefaultWorkers)
	cfg.Grace = max(0, cmp.Or(cfg.Grace, slots.DefaultGrace))
	cfg.Early = min(max(0, cmp.Or(cfg.Early, slots.DefaultEarly)), cfg.Grid.Width()/2)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Now == nil {
		cfg.Now = clock
	}
	if cfg.Workers < 1 {
		return nil, fmt.Errorf("open spool: %d workers: must be positive", cfg.Workers)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, fmt.Errorf("open spool: directory %q: want a path", cfg.Dir)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open spool: %w; make it with: mkdir -m 700 %s", err, dir)
	case !info.IsDir():
		return nil, fmt.Errorf("open spool: %s is no directory", dir)
	case forEverybody(info.Mode()):
		return nil, fmt.Errorf("open spool: everybody may write to %s, and so have anything run; forbid it with: chmod o-w %[1]s", dir)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the runner: %w", err)
	}
	return &Spool{cfg: cfg, dir: dir, runner: fmt.Sprintf("%s:%d", host, os.Getpid())}, nil
}

// Grid returns the grid of the spool.
func (s *Spool) Grid() grid.Grid { return s.cfg.Grid }

// Now returns the instant that slots are compared with.
func (s *Spool) Now() time.Time { return s.cfg.Now().UTC() }

// Due returns the slot that a run started now is for, as [slots.Due] does. A spool has no ledger: the slot of jobName counts
// if it has a directory.
func (s *Spool) Due(jobName string) time.Time {
	now := s.Now()
	slot := slots.Due(s.Grid(), time.Time{}, now, s.cfg.Early, jobName)
	if _, err := os.Lstat(s.slotDir(slot)); err != nil {
		return slots.Due(s.Grid(), time.Time{}, now, s.cfg.Early, "")
	}
	return slot
}

// current is the slot that has begun last.
func (s *Spool) current() time.Time { return s.Grid().Floor(s.Now()) }

func forEverybody(mode fs.FileMode) bool { return mode.Perm()&0o002 != 0 }
