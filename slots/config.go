package slots

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/engine"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/server"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a Runner. DB and Registry must be set; every other zero field means its default.
type Config struct {
	// DB is a *sql.DB or a *sqlx.DB. It needs Connections + OwnConnections connections. With fewer, NewRunner logs a
	// warning, and checks that use DB themselves may wait for connections that other checks hold.
	DB pgsql.Pool
	// Schema holds the tables. Default "prescient".
	Schema string
	// Registry holds the jobs. Rows of jobs it does not know are left in their slot; see Result.Unknown.
	Registry *jobs.Registry
	// Name tells this runner from others in leases and history. At most 200 bytes of UTF-8. Default "host:pid".
	Name string
	// Workers is how many checks run at once. Default 64.
	Workers int
	// Connections is how many checks with a transaction run at once. Default 8.
	Connections int
	// Shared are bounds that this runner keeps together with others of the process, besides its own.
	Shared Shared
	// Page is how many rows are claimed, read and recorded at once, at the most. Default 2000.
	Page int
	// Lease is how long a claim stays with a runner that is not heard of. The heartbeat is a third of it.
	// Default 1 minute, at least 1 second.
	Lease time.Duration
	// Grace is what running checks get to finish when the run is stopped, and what a check that ignores its timeout
	// gets before it is abandoned. Default 20 s; negative: none.
	Grace time.Duration
	// Early is how long before a boundary a run waits for it; earlier, it belongs to the slot before. Default 5 s;
	// negative: none. Never more than half the width.
	Early time.Duration
	// ClaimDelay postpones each claim by this much for every unit of the machine's load (0 idle, 1 all cores in use, and more
	// when work queues up; always 0 but on Linux), a second at the most, so that a busy machine leaves rows to idle ones. It
	// costs the delay where only one machine runs. Default 0: claim at once.
	ClaimDelay time.Duration
	// Now is the clock that slots are compared with, for a replay of the past or the future. Default: the database's.
	Now func() time.Time
	// Logger gets warnings. Default: slog.Default().
	Logger *slog.Logger
	// Progress, when set, is called after every batch, from one goroutine at a time. A panic in it is logged.
	Progress func(Progress)
	// Observer, when set, is told what was recorded, for metrics; see package slots/metrics.
	Observer Observer
}

// Shared are bounds of several runners together, such as those of many stores. Nil: none.
type Shared struct {
	// Runs is how many slots are run at once, each of which needs OwnConnections. A run whose turn has not come waits.
	Runs Bound
	// Workers and Connections bound what Config bounds for each runner.
	Workers, Connections Bound
}

// Bound is how many may do something at once: make(Bound, 8).
type Bound chan struct{}

// Progress is how far a run has come.
type Progress struct {
	Slot     time.Time
	Planned  int64 // rows when the slot was opened; an estimate when there were many
	Recorded int64 // rows this runner has recorded
}

// OwnConnections is how many connections a run uses at once beside those of checks with a transaction: two record, one
// claims and reads, one waits for a lock, and one is for the heartbeat.
const OwnConnections = 5

// Defaults of Config.
const (
	DefaultWorkers     = 64
	DefaultConnections = 8
	DefaultPage        = 2000
	DefaultLease       = time.Minute
	DefaultGrace       = 20 * time.Second
	DefaultEarly       = 5 * time.Second
)

// maxRunnerName is how many bytes the name of a runner may have.
const maxRunnerName = 200

// MinLease is the shortest lease: its heartbeat must have time to arrive.
const MinLease = time.Second

// Runner runs slots. It is safe for concurrent use. It is cheap to make and keeps the grid it was made with, so a
// long-lived process makes one for every slot.
type Runner struct {
	cfg     Config
	schema  pgsql.Schema
	server  server.Server
	setting pgsql.Setting
	jobs    map[int64]*engine.Definition // by number
}

// NewRunner reads the grid and the clock from the database, and makes the partitions of history that are due. It
// returns pgsql.ErrNotMigrated where the schema is missing.
func NewRunner(ctx context.Context, cfg Config) (*Runner, error) {
	if pgsql.Sqlx(cfg.DB) == nil || cfg.Registry == nil {
		return nil, errors.New("slots.Config: DB and Registry must be set")
	}
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name the runner: %w", err)
		}
		cfg.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if len(cfg.Name) > maxRunnerName || !utf8.ValidString(cfg.Name) || strings.ContainsRune(cfg.Name, 0) {
		return nil, fmt.Errorf("slots.Config: Name must be at most %d bytes of UTF-8 without NUL", maxRunnerName)
	}
	cfg.Workers = cmp.Or(cfg.Workers, DefaultWorkers)
	cfg.Connections = cmp.Or(cfg.Connections, DefaultConnections)
	cfg.Page = cmp.Or(cfg.Page, DefaultPage)
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	cfg.Grace = min(max(0, cmp.Or(cfg.Grace, DefaultGrace)), math.MaxInt64-lastTime) // which is added to it
	cfg.Early = max(0, cmp.Or(cfg.Early, DefaultEarly))
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.ClaimDelay < 0 || cfg.Workers < 1 || cfg.Connections < 1 || cfg.Page < 1 || cfg.Lease < MinLease {
		return nil, fmt.Errorf("slots.Config: Workers, Connections and Page must be positive, ClaimDelay not negative, and Lease at least %s", MinLease)
	}
	for _, bound := range []Bound{cfg.Shared.Runs, cfg.Shared.Workers, cfg.Shared.Connections} {
		if bound != nil && cap(bound) == 0 { // everybody would wait for ever
			return nil, errors.New("slots.Config: the bounds of Shared must be nil, or made with room: make(slots.Bound, 8)")
		}
	}
	setting, err := pgsql.ReadSetting(ctx, cfg.DB, schema)
	if err != nil {
		return nil, err
	}
	if most := cfg.DB.Stats().MaxOpenConnections; most > 0 && most < cfg.Connections+OwnConnections && cfg.Shared.Runs == nil {
		cfg.Logger.WarnContext(ctx, "the pool has too few connections: see SetMaxOpenConns", "connections", most, "needed", cfg.Connections+OwnConnections)
	}
	cfg.Early = min(cfg.Early, setting.Grid.Width()/2)
	r := &Runner{cfg: cfg, schema: schema, setting: setting}
	r.server = server.Server{DB: pgsql.Sqlx(cfg.DB), Schema: schema, Citus: setting.Citus, Lease: cfg.Lease, Logger: cfg.Logger}
	if err := r.register(ctx); err != nil {
		return nil, err
	}
	r.makeHistoryMonths(ctx)
	return r, nil
}

// Grid returns the grid of the database.
func (r *Runner) Grid() grid.Grid { return r.setting.Grid }

// Now returns the instant that slots are compared with.
func (r *Runner) Now() time.Time {
	if r.cfg.Now != nil {
		return r.cfg.Now()
	}
	return r.setting.Now()
}

// register learns the numbers of the jobs, and writes into the database that a run knows them.
func (r *Runner) register(ctx context.Context) error {
	names, slas := []string{}, []sql.NullInt64{}
	for def := range engine.All(r.cfg.Registry) {
		names, slas = append(names, def.Name), append(slas, micros(def.SLA, def.SLA > 0))
	}
	r.jobs = map[int64]*engine.Definition{}
	var m pgsql.Message
	m.Add(pgsql.JobRegister.In(r.schema), []any{pq.Array(names), pq.Array(slas)}, func(row *sql.Rows) error {
		var name string
		var number int64
		err := row.Scan(&name, &number)
		r.jobs[number], _ = engine.Lookup(r.cfg.Registry, name)
		return err
	})
	if err := r.server.Retry(ctx, pgsql.IsRetryable, func() error { return r.server.Commit(ctx, &m) }); err != nil {
		return fmt.Errorf("register jobs: %w", pgsql.ExplainMissing(err))
	}
	return nil
}

// makeHistoryMonths only warns: a role that may not create tables can still run, and what it finishes goes to the
// default partition. While somebody reads history it is left for another time.
func (r *Runner) makeHistoryMonths(ctx context.Context) {
	var m pgsql.Message
	m.Do(pgsql.HistoryMonths.In(r.schema))
	err := r.server.Commit(ctx, &m)
	if err != nil && ctx.Err() == nil && !pgsql.IsLockTimeout(err) {
		r.cfg.Logger.WarnContext(ctx, "history has no partition made ahead; rows go to its default partition", "error", err)
	}
}
