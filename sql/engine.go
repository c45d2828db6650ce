package sql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
)

// EngineError reports a server that speaks PostgreSQL's protocol but whose engine lacks what the
// promises need. docs/databases.md has the sources.
type EngineError struct {
	Name string // of the engine, such as CockroachDB
	Why  string // what the engine lacks
}

// What names the engine and says what it lacks.
func (e *EngineError) What() string {
	return fmt.Sprintf("the server is %s, which cannot keep the promises of prescient: %s", e.Name, e.Why)
}

// Remedy says what to do about it.
func (e *EngineError) Remedy() string {
	return "point database.url at PostgreSQL 15 or newer, or at a service that runs it; " +
		"docs/databases.md tells which are known"
}

// Error returns What, then Remedy.
func (e *EngineError) Error() string { return e.What() + "; " + e.Remedy() }

// RefuseEngine returns an EngineError if the server's engine is known not to keep the promises. It
// needs no schema, and works on a hot standby.
func RefuseEngine(_ reserved.Caller, ctx context.Context, db Pool) error {
	return ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		for _, ask := range engineSays {
			var says string
			if err := pg.One(ctx, tx, ask.In(DefaultSchema), nil, &says); err != nil {
				return fmt.Errorf("ask the server what it is: %w", err)
			}
			if err := refuseEngine(says); err != nil {
				return err
			}
		}
		return nil
	})
}

// engineSays are the statements that identify an engine. Each returns a text. The version comes
// first, because some engines lack what the second statement reads.
var engineSays = []pg.Statement{pg.EngineVersion, pg.EngineSigns}

// addEngine adds the statements that identify the engine to a message.
func addEngine(m *pg.Message) {
	for _, ask := range engineSays {
		m.Add(ask.In(DefaultSchema), nil, func(row *sql.Rows) error {
			var says string
			if err := row.Scan(&says); err != nil {
				return err
			}
			return refuseEngine(says)
		})
	}
}

// engines lists the refused engines, each with a text that identifies it. If several match, the
// first applies.
var engines = []struct{ says, name, why string }{
	{"CockroachDB", "CockroachDB", "it locks no tables, its transaction numbers have no order, " +
		"and its partitions are not tables"},
	{"-YB-", "YugabyteDB", "its transactions have no numbers in their order, " +
		"by which a run knows that none may still bring rows into its slot"},
	{"(MatrixDB", "YMatrix", segments},
	{"(Greenplum Database", "Greenplum", segments},
	{"Cloudberry", "Cloudberry", segments},
	{"openGauss", "openGauss", gauss},
	{"GaussDB", "GaussDB", gauss},
	{"(Materialize", "Materialize", "a transaction either reads or inserts, so it can neither claim nor record rows"},
	{"-RisingWave-", "RisingWave", "it accepts BEGIN but starts no transaction that writes"},
	{"sys.iam_pg_role_mappings", "Aurora DSQL", "it has no PL/pgSQL, no partitions and no advisory locks"},
	{
		"extension aurora_limitless_fdw", "Aurora PostgreSQL Limitless Database",
		"it has no identity columns, attaches no partitions, and takes no CHECK that calls a function",
	},
	{"extension bdr", "EDB Postgres Distributed", "each of its nodes takes writes, conflicts are settled afterwards, " +
		"and locks hold on one node alone"},
}

const (
	segments = "it spreads rows over segments, and a unique index must contain the distribution columns, " +
		"so the key of a check would not be unique"
	gauss = "it comes from PostgreSQL 9.2, and has no insert ... on conflict"
)

func refuseEngine(says string) error {
	for _, e := range engines {
		if strings.Contains(says, e.says) {
			return &EngineError{Name: e.name, Why: e.why}
		}
	}
	return nil
}
