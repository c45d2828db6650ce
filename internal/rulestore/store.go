package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Config of a Store. The zero value is the default.
type Config struct {
	// Schema holds prescient's tables. Default "prescient".
	Schema string
	// Reserved reports whether a job of the binary has a name, which no rule may have then. Optional.
	Reserved func(name string) bool
	// PageSize is how many rows of a table a transaction of Apply reads at most. Default 10000.
	PageSize int
	// Now is the clock of a replay. Default: the database's.
	Now func() time.Time
	// Actor is who applies and removes rules. Defaults to the database role.
	Actor string
	// Setting has the result of pgsql.ReadSetting for the schema, so that it is not read again. Optional.
	Setting *pgsql.Setting
}

// Store applies rules to the tables of a database, and reads the rules that were applied. It is
// safe for concurrent use. If the schema has roles, Plan, SQL, List and Get need the rights of a
// reader, Apply and Remove those of an operator. Plan and SQL also need the privileges select on the
// table of a rule, and usage on its schema. Apply needs trigger there, too.
type Store struct {
	db     *sqlx.DB
	cfg    Config
	schema pgsql.Schema
	client *jobs.Client // nil for NewReader
	reads  pg.Querier   // nil: each read has a transaction of its own
	again  bool
}

// ErrNotFound is returned for a rule that was never applied, or was removed.
var ErrNotFound = errors.New("there is no such rule")

// defaultPage is the default of Config.PageSize. Larger pages are not faster.
const defaultPage = 10_000

// horizon lets delays end later than those of checks in general: the columns of a table are no
// mistake.
const horizon = 290 * 365 * 24 * time.Hour

// New returns a store. It returns pgsql.ErrNotMigrated if the schema is missing.
func New(ctx context.Context, db pgsql.Pool, cfg Config) (*Store, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	if err != nil {
		return nil, err
	}
	cfg.PageSize = cmp.Or(cfg.PageSize, defaultPage)
	client, err := jobs.NewClient(ctx, db, jobs.Config{
		Schema: cfg.Schema, Horizon: horizon, Now: cfg.Now, Setting: cfg.Setting,
	})
	if err != nil {
		return nil, err
	}
	return &Store{db: pg.Sqlx(db), cfg: cfg, schema: schema, client: client}, nil
}

// NewReader returns a store that only understands rules, see Understand. It needs no schema of prescient in the
// database. Plan and Apply also refuse a condition that triggers must not evaluate.
func NewReader(db pgsql.Pool, cfg Config) (*Store, error) {
	schema, err := pgsql.ParseSchema(cfg.Schema)
	return &Store{db: pg.Sqlx(db), cfg: cfg, schema: schema}, err
}

// State says what is being done with a rule.
type State string

// The states.
const (
	// Applying: an Apply walks over the rows of the table, or has died. Apply again resumes it.
	Applying State = "applying"
	// Active: all rows wait as the rule says.
	Active State = "active"
	// Removing: a Remove is at work, or has died. Remove again resumes it.
	Removing State = "removing"
)

// Status is a rule as the database has it.
type Status struct {
	rule.Applied
	// Version is raised by each apply that changes the rule.
	Version int   `json:"version"`
	State   State `json:"state"`
	// Position is the last key of the table to which an apply has come. Empty: it has not begun, or
	// is done.
	Position string `json:"position,omitempty"`
	// Retimed has the steps that come at other instants since the last apply that is done. An apply that has begun, or
	// has died, still has to look at rows that wait for the instants before.
	Retimed []string `json:"-"`
	// RecoversAt is since when the rule has Recovered, in UTC: what fired before is not followed by it. Zero: it has none.
	RecoversAt time.Time `json:"-"`
	// AppliedAt is when the last apply was done, in UTC; AppliedBy is its database role.
	AppliedAt time.Time `json:"applied_at,omitzero"`
	AppliedBy string    `json:"applied_by,omitempty"`
	// PausedAt is since when runs claim none of its rows, in UTC. Zero: it is not paused.
	PausedAt time.Time `json:"paused_at,omitzero"`
	PausedBy string    `json:"paused_by,omitempty"`
	// StoppedAt is when an apply or a remove has advanced last, in UTC, if that is more than 5 minutes
	// ago: it has died, or another session blocks it. Zero: it is done, or at work.
	StoppedAt time.Time `json:"stopped_at,omitzero"`
}

// List returns all rules, in the order of their names.
func (s *Store) List(ctx context.Context) ([]Status, error) {
	list, err := s.read(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	return list, nil
}

// Get returns a rule, or ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Status, error) {
	list, err := s.read(ctx, name)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Status{}, fmt.Errorf("read rule %s: %w", name, err)
	}
	return list[0], nil
}

func (s *Store) read(ctx context.Context, name any) (list []Status, err error) {
	err = s.reading(ctx, func(q pg.Querier) error {
		list, err = pg.Collect(ctx, q, pg.RuleGet.In(s.schema), []any{name}, scanStatus)
		return err
	})
	return list, pg.ExplainMissing(err)
}

// In returns a store that lists and sums up rules with the statements of q, a transaction of the
// caller. It changes nothing with q.
func (s *Store) In(q pg.Querier) *Store {
	in := *s
	in.reads = q
	return &in
}

// Again returns a store whose Plan and Apply look at the rows of rules that are unchanged, too. They
// find the rows that triggers have missed.
func (s *Store) Again() *Store {
	again := *s
	again.again = true
	return &again
}

// reading calls fn with the transaction of In, or else with one of its own.
func (s *Store) reading(ctx context.Context, fn func(q pg.Querier) error) error {
	if s.reads != nil {
		return fn(s.reads)
	}
	return pgsql.ReadTx(ctx, s.db, func(tx *sqlx.Tx) error { return fn(tx) })
}

// scanStatus reads a row of statement rule_get.
func scanStatus(row *sql.Rows, r *Status) error {
	var name, relation, definition string
	var position sql.NullString
	err := row.Scan(&name, &relation, &definition, &r.Version, &r.State, &position, pq.Array(&r.Retimed),
		pg.UTC(&r.AppliedAt), &r.AppliedBy, pg.UTC(&r.PausedAt), &r.PausedBy, pg.UTC(&r.RecoversAt), pg.UTC(&r.StoppedAt))
	if err != nil {
		return err
	}
	r.Position = position.String
	if err := json.Unmarshal([]byte(definition), &r.Applied); err != nil {
		return fmt.Errorf("read the definition of rule %s: %w", name, err)
	}
	return nil
}

// FiredStep counts how often a step has fired.
type FiredStep struct {
	Step   string    `json:"step"`    // its name
	Fired  int64     `json:"fired"`   // how often
	LastAt time.Time `json:"last_at"` // UTC
	// DeadLetters is the number of its events that were given up, because their destination refused
	// them. They have fired.
	DeadLetters int64 `json:"dead_letters"`
}

// Fired counts, for each step of a rule, how often it has fired. A prune removes old entries.
func (s *Store) Fired(ctx context.Context, name string) (steps []FiredStep, err error) {
	err = s.reading(ctx, func(q pg.Querier) error {
		steps, err = pg.Collect(ctx, q, pg.RuleFiredSteps.In(s.schema), []any{name},
			func(row *sql.Rows, f *FiredStep) error {
				return row.Scan(&f.Step, &f.Fired, pg.UTC(&f.LastAt), &f.DeadLetters)
			})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count what rule %s has fired: %w", name, pg.ExplainMissing(err))
	}
	return steps, nil
}
