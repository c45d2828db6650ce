package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Note is worth knowing, and may be intended.
	Note Severity = "note"
	// Action needs an operator.
	Action Severity = "action"
)

// Finding is one problem.
type Finding struct {
	Name     string   `json:"name"`     // of the check
	Severity Severity `json:"severity"` // note or action
	What     string   `json:"what"`     // what was found
	Do       string   `json:"do"`       // what mends it: a command, or a sentence
}

// Config configures Examine. DB, Name and Knows must be set; every other zero field means its default.
type Config struct {
	DB     *sqlx.DB
	Schema pgsql.Schema
	// Name calls the binary in the commands of findings.
	Name string
	// Connections is the number that a run needs.
	Connections int
	// Early is how far ahead of the database a run may start.
	Early time.Duration
	// Knows reports whether the binary has a job.
	Knows func(job string) bool
	// Jobs are the jobs of the binary and of its settings. Defaults to none.
	Jobs []string
	// Registry has the periodic functions of the binary. Defaults to none.
	Registry *jobs.Registry

	// Limits above which there is a finding. Default: 10 minutes, 100,000 rows, 256 MB.
	Old   time.Duration // of a transaction that holds back vacuum and readers
	Dead  int64         // rows of a table
	Bytes int64         // of a table
}

// check finds one kind of problem.
type check struct {
	name string
	look func(ctx context.Context, tx *sqlx.Tx, c Config) ([]Finding, error)
}

// server has the checks that read no table of the schema, and store the ones that do.
var (
	server = []check{
		{"standby", standby},
		{"clock", clock},
		{"connections", connections},
		{"settings", settings},
		{"sessions", sessions},
		{"holders", holders},
		{"row security", rowSecurity},
		{"collation", collations},
	}
	store = []check{
		{"rights", rights},
		{"ahead", beyondClock},
		{"tables", tables},
		{"months", months},
		{"jobs", waitingJobs},
		{"periodic", periodicRows},
		{"rules", rules},
		{"schedules", schedules},
	}
)

// Examine makes every check, in order. If the engine is refused, that is the only finding, because it
// may lack what the other checks query. It returns an error if the database cannot be queried.
func Examine(ctx context.Context, c Config) ([]Finding, error) {
	c = c.withDefaults()
	list, err := engine(ctx, c)
	if err != nil || len(list) > 0 {
		return list, err
	}
	list, err = c.all(ctx, server)
	if err != nil {
		return nil, err
	}
	schema, migrated, err := migrations(ctx, c)
	if err != nil {
		return nil, err
	}
	list = append(list, schema...)
	if !migrated {
		return list, nil
	}
	more, err := c.all(ctx, store)
	return append(list, more...), err
}

func (c Config) withDefaults() Config {
	c.Old = cmp.Or(c.Old, 10*time.Minute)
	c.Dead = cmp.Or(c.Dead, 100_000)
	c.Bytes = cmp.Or(c.Bytes, 256<<20)
	return c
}

func (c Config) all(ctx context.Context, checks []check) (list []Finding, err error) {
	for _, check := range checks {
		var found []Finding
		err := pgsql.ReadTx(ctx, c.DB, func(tx *sqlx.Tx) error {
			found, err = check.look(ctx, tx, c)
			return err
		})
		if pg.IsRowSecurity(err) {
			found, err = nil, nil // rowSecurity tells
		}
		if refused := pq.As(err, pqerror.InsufficientPrivilege); refused != nil {
			found, err = []Finding{c.refused(refused.Message)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", check.name, err)
		}
		for _, f := range found {
			f.Name = check.name
			list = append(list, f)
		}
	}
	return list, nil
}

// ToDo returns the finding of a check on which an operator must act.
func ToDo(check, what, do string) Finding { return Finding{check, Action, what, do} }

func (c Config) refused(why string) Finding {
	return note("this cannot be looked at: "+why, "run doctor as a member of %s", pg.Reader.In(c.Schema))
}

func note(what, do string, args ...any) Finding {
	return Finding{Severity: Note, What: what, Do: fmt.Sprintf(do, args...)}
}

func action(what, do string, args ...any) Finding {
	return Finding{Severity: Action, What: what, Do: fmt.Sprintf(do, args...)}
}

// get reads the one row of a statement.
func get[T any](ctx context.Context, tx *sqlx.Tx, c Config, stmt pg.Statement, args ...any) (row T, err error) {
	err = tx.GetContext(ctx, &row, stmt.In(c.Schema), args...)
	return row, err
}

// list reads the rows of a statement.
func list[T any](ctx context.Context, tx *sqlx.Tx, c Config, stmt pg.Statement, args ...any) (rows []T, err error) {
	err = tx.SelectContext(ctx, &rows, stmt.In(c.Schema), args...)
	return rows, err
}
