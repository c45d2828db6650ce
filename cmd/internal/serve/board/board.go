package board

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/time/rate"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/schedule"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config configures a Board. DB, Runner.Registry and Publishing must be set.
type Config struct {
	DB *sqlx.DB
	// Schema holds the tables. Defaults to "prescient".
	Schema string
	// Runner configures catch-up. Its Registry has the jobs of the binary. Its DB and Schema are
	// replaced by those above.
	Runner slots.Config
	// Horizon is how far ahead checks may be moved. Defaults to jobs.DefaultHorizon.
	Horizon time.Duration
	// Publishing is where the actions trigger and backfill publish.
	Publishing *schedule.PublishConfig
	// Self is how to call the binary, for the advice of findings.
	Self string
	// Private is the directory of the private PostgreSQL. Empty: the database is another one.
	Private string
	// MaxPayload limits the payload of a schedule. Defaults to 65536 bytes.
	MaxPayload int
	// Plans bounds the actions that are planned concurrently. Boards with a common pool share it.
	// Defaults to a bound for one board.
	Plans chan struct{}
	// Logger receives every action. Defaults to slog.Default().
	Logger *slog.Logger
	// Now is the clock that slots are compared with. Defaults to the database's clock.
	Now func() time.Time
}

// Board reads for pages and the API, and does actions. It is safe for concurrent use.
type Board struct {
	*source
	*operator
}

// source reads from the database through a cache, and makes the tools of reads and actions.
type source struct {
	cfg    Config
	schema pgsql.Schema
	cache  *cache

	last atomic.Pointer[tools] // those that were made last

	mu     sync.Mutex
	tools  *tools
	failed error     // why the last attempt to make tools failed; nil: it did not
	tried  time.Time // when that was
}

// ErrBusy is returned if a read would have to wait long for the limit of statements. A later read may
// succeed.
var ErrBusy = errors.New("too many different requests to the database: try again in a moment")

// ErrNotFound is returned if the requested object does not exist.
var ErrNotFound = errors.New("there is no such thing")

// New returns a Board, or pgsql.ErrNotMigrated if the schema is missing. Close the Board at the
// end.
func New(ctx context.Context, cfg Config) (*Board, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	if cfg.DB == nil || cfg.Runner.Registry == nil || cfg.Publishing == nil {
		return nil, errors.New("board.Config: DB, Runner.Registry and Publishing must be set")
	}
	cfg.Schema = schema.String()
	cfg.Runner.DB, cfg.Runner.Schema = cfg.DB, cfg.Schema
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Plans == nil {
		cfg.Plans = NewPlans()
	}
	s := &source{cfg: cfg, schema: schema, cache: newCache()}
	_, err = s.current(ctx)
	return &Board{s, newOperator(ctx, s)}, err
}

// Schema returns the schema that the Board works on.
func (b *Board) Schema() pgsql.Schema { return b.schema }

// Admit waits until the limit of statements allows another read, which the caller sends itself. Returns ErrBusy if that
// would take too long.
func (b *Board) Admit(ctx context.Context) error {
	if !b.cache.admit(ctx) {
		return ErrBusy
	}
	return nil
}

// Stop stops running actions, such as a catch-up, and begins no other that would go on after Do has
// returned. Reads go on until Close.
func (b *Board) Stop() { b.stop() }

// Close stops running actions, such as a catch-up, and waits until their results are recorded.
func (b *Board) Close() {
	b.close()
	b.cache.work.Wait()
}

// tools read and act. They know the grid at the time they were made.
type tools struct {
	made    time.Time
	schema  pgsql.Schema
	setting pgsql.Setting
	ledger  *ledger.Ledger
	client  *jobs.Client
	store   *schedule.Store
	rules   *rulestore.Store
}

const (
	// toolsFor is how soon a change of the width is noticed.
	toolsFor = time.Minute
	// retryDelay is the pause after making tools failed.
	retryDelay = 2 * time.Second
)

// current returns tools that are not too old.
func (s *source) current(ctx context.Context) (*tools, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools != nil && time.Since(s.tools.made) < toolsFor {
		return s.tools, nil
	}
	if s.failed != nil && time.Since(s.tried) < retryDelay {
		return nil, s.failed
	}
	t, err := s.newTools(ctx)
	if err != nil && ctx.Err() != nil { // the request has ended; its error must not reach other requests
		return nil, err
	}
	s.failed, s.tried = err, elapsed.Now()
	if err == nil {
		s.tools = t
		s.last.Store(t)
	}
	return t, err
}

// Now returns the instant that slots are compared with, without asking the database. It is zero until
// the database has answered once.
func (s *source) Now() time.Time {
	if t := s.last.Load(); t != nil {
		return t.now()
	}
	return time.Time{}
}

// Width returns the width of the slots, without asking the database. It is zero until the database has answered once.
func (s *source) Width() time.Duration {
	if t := s.last.Load(); t != nil {
		return t.grid().Width()
	}
	return 0
}

func (s *source) newTools(ctx context.Context) (*tools, error) {
	t := &tools{made: elapsed.Now(), schema: s.schema}
	var err error
	if t.setting, err = pgsql.ReadSetting(ctx, s.cfg.DB, s.schema); err != nil {
		return nil, err
	}
	t.ledger = ledger.Of(s.cfg.DB, s.schema, t.setting, s.cfg.Now)
	if t.client, err = jobs.NewClient(ctx, s.cfg.DB, jobs.Config{
		Schema: s.cfg.Schema, Horizon: s.cfg.Horizon, Now: s.cfg.Now, Setting: &t.setting,
	}); err != nil {
		return nil, err
	}
	t.store, err = schedule.NewStore(ctx, s.cfg.DB, schedule.Config{
		Schema:     s.cfg.Schema,
		MaxPayload: s.cfg.MaxPayload, Now: s.cfg.Now, Setting: &t.setting,
	})
	if err != nil {
		return nil, err
	}
	t.rules, err = rulestore.New(ctx, s.cfg.DB, rulestore.Config{
		Schema: s.cfg.Schema, Now: s.cfg.Now, Setting: &t.setting,
	})
	return t, err
}

func (t *tools) grid() grid.Grid { return t.ledger.Grid() }
func (t *tools) now() time.Time  { return t.ledger.Now().UTC() }

// reader is a transaction that reads for one page. It is a jobs.DB.
type reader struct {
	*tools
	tx    *sqlx.Tx
	limit *rate.Limiter // nil: its statements do not count
}

// since returns the beginning of the ledger as the transaction sees it. Tools may be older than a
// jobs prune that has moved it; earlier slots would then look missed.
func (r *reader) since(ctx context.Context) (time.Time, error) {
	var began int64
	var ignored any
	err := pg.One(ctx, r, pg.ReadSettings.In(r.schema), nil,
		&ignored, &began, &ignored, &ignored, &ignored, &ignored, &ignored, &ignored, &ignored, &ignored)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the beginning of the ledger: %w", err)
	}
	return time.UnixMicro(began).UTC(), nil
}

// QueryContext runs a query in the transaction. It takes the query from the limit of statements, and
// does not wait: a later read does.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if r.limit != nil {
		r.limit.Reserve()
	}
	return r.tx.QueryContext(ctx, query, args...)
}

// ExecContext runs a statement in the transaction.
func (r *reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.tx.ExecContext(ctx, query, args...)
}

// slotIndexOnly makes the statements that follow use the index by slot. Do not call it before a
// read of history by time.
func (r *reader) slotIndexOnly(ctx context.Context) error {
	_, err := r.tx.ExecContext(ctx, pg.SlotIndexOnly.In(r.schema))
	return err
}

// rows runs a statement and returns its rows, never nil.
func rows[T any](
	ctx context.Context, r *reader, stmt pg.Statement, args []any, scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	return pg.Append(ctx, r, []T{}, stmt.In(r.schema), args, scan)
}

// statementTimeout bounds what a single statement of a page may cost.
const statementTimeout = "set local statement_timeout = '5s'"

// seen is a pointer to a value with a Seen.
type seen[T any] interface {
	*T
	see(Seen)
}

func (s *Seen) see(v Seen) { *s = v }

// read returns what fn reads, or has read lately; see cache.get.
func read[T any, P seen[T]](
	ctx context.Context, s *source, key string, acted int64, fresh time.Duration,
	fn func(ctx context.Context, r *reader) (T, error),
) (T, error) {
	got, err := s.cache.get(ctx, key, acted, fresh, loadOf(s, fn))
	if err != nil {
		var none T
		return none, err
	}
	k := got.value.(kept[T])
	P(&k.Value).see(Seen{AsOf: k.AsOf, Age: duration.Text(got.age().Round(time.Millisecond))})
	return k.Value, nil
}

// kept is a value in the cache, with the instant at which it was read.
type kept[T any] struct {
	Value T
	AsOf  time.Time
}

// loadOf returns what reads a value for the cache.
func loadOf[T any](s *source, fn func(ctx context.Context, r *reader) (T, error)) load {
	return func(ctx context.Context) (any, error) {
		t, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		k := kept[T]{AsOf: t.now()}
		err = pg.SnapshotTx(ctx, s.cfg.DB, func(tx *sqlx.Tx) (err error) {
			if _, err = tx.ExecContext(ctx, statementTimeout); err != nil {
				return err
			}
			k.Value, err = fn(ctx, &reader{t, tx, s.cache.limit})
			return err
		})
		return k, pg.ExplainMissing(err)
	}
}

// perSecond returns a rate of rows, 0 if no time has passed.
func perSecond(rows int64, took duration.Text) float64 {
	if took <= 0 {
		return 0
	}
	return float64(rows) / time.Duration(took).Seconds()
}

func notFound(what string) error { return fmt.Errorf("%s: %w", what, ErrNotFound) }
