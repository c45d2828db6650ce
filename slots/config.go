package slots

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/internal/claim"
	"github.com/prescient-go/prescient/slots/internal/db"
	"github.com/prescient-go/prescient/slots/internal/phase"
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
	// Name identifies this runner in leases and history. At most 200 bytes of UTF-8. Default "host:pid".
	Name string
	// Workers bounds the concurrent checks. Default 64.
	Workers int
	// Connections bounds the concurrent checks with a transaction. Default 8.
	Connections int
	// Shared are bounds over several runners of the process, beside those of each. Optional.
	Shared Shared
	// Page bounds the rows that are claimed, read and recorded together. Default 2000.
	Page int
	// Lease is how long a claim stays with a runner without a heartbeat. A heartbeat is sent every third of it.
	// Default 1 minute, at least 1 second.
	Lease time.Duration
	// Grace is how long running checks may go on after the run is stopped, and a check that ignores its timeout before
	// it is abandoned. Default 20 s; negative: none.
	Grace time.Duration
	// Early is how long before a boundary a run waits for it; earlier, it belongs to the slot before. Default 5 s;
	// negative: none. Never more than half the width.
	Early time.Duration
	// LeaveLocked makes Run leave the rows that other sessions have locked, as CatchUp does: some seconds after nothing
	// else is left to do. Set it if CatchUp follows. Default: Run waits for them until shortly before the next slot.
	LeaveLocked bool
	// Now is the clock that slots are compared with, for a replay of the past or the future. The SQL of a check with a
	// transaction has it as prescient_caller.clock, unless the job has jobs.WithPool, or the rule or schedule has a role.
	// Default: the database's.
	Now func() time.Time
	// Logger receives warnings. Default: slog.Default().
	Logger *slog.Logger
	// Progress is called after every batch, and never concurrently by one Runner or one daemon. A panic in it is logged.
	// Optional.
	Progress func(Progress)
	// Observer receives what was recorded, for metrics; see package slots/metrics. Optional.
	Observer Observer
	// Told reports whether a person knows already that checks of a job fail or, with gaveUp, that rows were given up.
	// Such a failure is logged at the level info. Optional.
	Told func(job string, gaveUp bool) bool
}

// Shared has bounds over several runners, such as those of many stores. Each is a semaphore: make(chan struct{}, 8)
// lets eight in. A nil bound does not apply.
type Shared struct {
	// Runs bounds the slots that are run concurrently. Each needs OwnConnections. Further runs wait. A slot that only
	// waits for running checks, locks and the limits of its jobs does not count, at the latest after some seconds.
	Runs chan struct{}
	// Workers and Connections bound over all runners what Config bounds for each.
	Workers, Connections chan struct{}
}

// Progress is how far a run has come.
type Progress struct {
	Slot     time.Time // UTC
	Planned  int64     // rows when the slot was opened; an estimate when there were many
	Recorded int64     // rows this runner has recorded
}

// OwnConnections is how many connections a run uses beside those of checks with a transaction: two record, one claims
// and reads, one waits for a lock, and one sends heartbeats.
const OwnConnections = 5

// DefaultConnections is the default of Config.Connections. A pool for one run needs OwnConnections more.
const DefaultConnections = 8

const (
	defaultPage  = 2000
	defaultLease = time.Minute
	defaultEarly = 5 * time.Second
)

// maxRunnerName is how many bytes the name of a runner may have.
const maxRunnerName = 200

// Runner runs slots. It is safe for concurrent use. It keeps the grid that it was created with, but Run reads the grid
// again after a wait for a boundary, and CatchUp when it begins. A Runner is cheap to create, so a long-lived process
// creates one for every slot.
type Runner struct {
	cfg     Config
	own     *jobs.Registry // of Config. That of cfg has the rules, too
	server  db.Server
	setting pgsql.Setting
	jobs    map[int64]*jobs.Definition // by number
	telling *sync.Mutex                // held while Progress is called
	atWork  *sync.Map                  // what its catch-ups work on, by slotOf
}

// isPgxAdapter reports whether a pool is one of pgx's own adapter for database/sql. A run would never end a slot whose
// checks have transactions.
func isPgxAdapter(db pgsql.Pool) bool {
	return fmt.Sprintf("%T", pg.Sqlx(db).Driver()) == "*stdlib.Driver"
}

// Validate returns the error that NewRunner returns for the configuration before it asks the database.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns the configuration with the defaults in place of zero values.
func (c Config) withDefaults() (Config, error) {
	if pg.Sqlx(c.DB) == nil || c.Registry == nil {
		return c, errors.New("slots.Config: DB and Registry must be set")
	}
	if isPgxAdapter(c.DB) {
		return c, errors.New("slots.Config: DB is a pool of pgx's package stdlib, on which a slot whose checks have " +
			"transactions never ends: open the pool with pgxjobs.Open")
	}
	if _, err := pgsql.ParseSchema(c.Schema); err != nil {
		return c, err
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("name the runner: %w", err)
		}
		c.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if len(c.Name) > maxRunnerName || !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0) {
		return c, fmt.Errorf("slots.Config: Name must be at most %d bytes of UTF-8 without NUL", maxRunnerName)
	}
	c.Workers = cmp.Or(c.Workers, defaults.Workers)
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.Page = cmp.Or(c.Page, defaultPage)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Grace = min(max(0, cmp.Or(c.Grace, defaults.Grace)), math.MaxInt64-phase.LastTime) // which is added to it
	c.Early = max(0, cmp.Or(c.Early, defaultEarly))
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Workers < 1 || c.Connections < 1 || c.Page < 1 || c.Lease < claim.MinLease {
		return c, fmt.Errorf("slots.Config: Workers, Connections and Page must be positive, "+
			"and Lease at least %s", claim.MinLease)
	}
	for _, bound := range []chan struct{}{c.Shared.Runs, c.Shared.Workers, c.Shared.Connections} {
		if bound != nil && cap(bound) == 0 { // nothing would ever enter
			return c, errors.New("slots.Config: the bounds of Shared must be nil, or made with room: make(chan struct{}, 8)")
		}
	}
	for name, d := range map[string]time.Duration{"Grace": c.Grace, "Early": c.Early} {
		if problem := spoken.Unitless(d); problem != "" {
			return c, fmt.Errorf("slots.Config: %s: %s", name, problem)
		}
	}
	return c, nil
}

// NewRunner reads the grid and the clock from the database, and creates the partitions of history that are due. It
// returns pgsql.ErrNotMigrated if the schema is missing.
func NewRunner(ctx context.Context, cfg Config) (*Runner, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	setting, err := pgsql.ReadSetting(ctx, cfg.DB, schema)
	if err != nil {
		return nil, err
	}
	if most := cfg.DB.Stats().MaxOpenConnections; most > 0 && most < cfg.Connections+OwnConnections &&
		cfg.Shared.Runs == nil {
		cfg.Logger.WarnContext(ctx, "the pool has too few connections: see SetMaxOpenConns", "connections", most, "needed",
			cfg.Connections+OwnConnections)
	}
	cfg.Early = min(cfg.Early, setting.Grid.Width()/2)
	r := &Runner{cfg: cfg, own: cfg.Registry, setting: setting, telling: new(sync.Mutex), atWork: new(sync.Map)}
	r.server = db.Server{
		DB: pg.Sqlx(cfg.DB), Schema: schema, Citus: setting.Citus, Version: setting.Server.Version,
		Lease: cfg.Lease, Logger: cfg.Logger,
	}
	if err := r.register(ctx, pg.IsRetryable); err != nil {
		return nil, err
	}
	r.makeHistoryMonths(ctx)
	r.enqueuePeriodic(ctx)
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

// replayed returns the parameter by which statements learn of a replayed clock. Nil: the clock of the database counts.
func (r *Runner) replayed() any {
	if r.cfg.Now == nil {
		return nil
	}
	return r.Now()
}

// register reads the numbers of the jobs, those of the rules in the database included, and records
// in the database that a run knows them. It repeats an error for which retryable returns true.
func (r *Runner) register(ctx context.Context, retryable func(err error) bool) error {
	names, slas := []string{}, []sql.NullInt64{}
	for def := range r.own.All() {
		names, slas = append(names, def.Name), append(slas, sql.NullInt64{Int64: def.SLA.Microseconds(), Valid: def.SLA > 0})
	}
	numbers := map[string]int64{}
	var m pg.Message
	args := []any{pq.Array(names), pq.Array(slas), r.own.KnowsRules(reserved.Caller{})}
	m.Add(pg.JobRegister.In(r.server.Schema), args, func(row *sql.Rows) error {
		var name string
		var number int64
		err := row.Scan(&name, &number)
		numbers[name] = number
		return err
	})
	if err := r.server.Retry(ctx, retryable, func() error { return r.server.Commit(ctx, &m) }); err != nil {
		return fmt.Errorf("register jobs: %w", pg.ExplainMissing(err))
	}
	for _, name := range names {
		if _, found := numbers[name]; !found {
			r.cfg.Logger.ErrorContext(ctx,
				"a job has no number, because another job has it: no row of it is checked. Give it another name", "job_exec", name)
		}
	}
	r.cfg.Registry = r.own.WithRules(reserved.Caller{}, slices.Sorted(maps.Keys(numbers)))
	r.jobs = make(map[int64]*jobs.Definition, len(numbers))
	for name, number := range numbers {
		r.jobs[number], _ = r.cfg.Registry.Lookup(name)
	}
	return nil
}

// makeHistoryMonths only warns: a role that may not create tables can still run, and the rows that
// it finishes go to the default partition. While another session reads history, a later run creates
// the partitions.
func (r *Runner) makeHistoryMonths(ctx context.Context) {
	var m pg.Message
	m.Do(pg.HistoryMonths.In(r.server.Schema))
	err := r.server.Commit(ctx, &m)
	if err != nil && ctx.Err() == nil && !pg.IsLockTimeout(err) {
		r.cfg.Logger.WarnContext(ctx, "no partition of history could be made ahead; rows go to its default partition",
			"error", err)
	}
}

// enqueuePeriodic makes the rows of periodic functions. It only warns: a later run makes them.
func (r *Runner) enqueuePeriodic(ctx context.Context) {
	if !r.cfg.Registry.HasPeriodic(reserved.Caller{}) {
		return
	}
	client, err := jobs.NewClient(ctx, r.cfg.DB, jobs.Config{Schema: r.cfg.Schema, Now: r.cfg.Now})
	if err == nil {
		err = client.EnqueuePeriodic(reserved.Caller{}, ctx, r.cfg.DB, r.cfg.Registry)
	}
	if err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "periodic functions may have no row until the next run", "error", err)
	}
}
