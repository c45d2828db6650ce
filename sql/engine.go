package sql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
)

// EngineError is returned for a server that speaks PostgreSQL's protocol, and is of an engine that is known to lack what
// the promises rest on. docs/engines.md has the sources.
type EngineError struct {
	Name string // of the engine
	Why  string // what it lacks
}

// EngineRemedy is what to do about an EngineError.
const EngineRemedy = "point database.url at PostgreSQL 15 or newer, or at a service that runs it; docs/engines.md tells which are known"

// What names the engine, and says what it lacks.
func (e *EngineError) What() string {
	return fmt.Sprintf("the server is %s, which cannot keep the promises of prescient: %s", e.Name, e.Why)
}

// Error is What and EngineRemedy.
func (e *EngineError) Error() string { return e.What() + "; " + EngineRemedy }

// RefuseEngine returns an EngineError for a server of an engine that is known not to keep the promises. It needs no
// schema, and works on a hot standby.
func RefuseEngine(ctx context.Context, db Pool) error {
	return ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		for _, ask := range engineSays {
			var says string
			if err := One(ctx, tx, ask.In(""), nil, &says); err != nil {
				return fmt.Errorf("ask the server what it is: %w", err)
			}
			if err := refuseEngine(says); err != nil {
				return err
			}
		}
		return nil
	})
}

// engineSays are what a server is judged by: each returns a text. The version comes first, since what the other asks for
// not every engine has.
var engineSays = []Statement{EngineVersion, EngineSigns}

// addEngine adds to a message what judges the server.
func addEngine(m *Message) {
	for _, ask := range engineSays {
		m.Add(ask.In(""), nil, func(row *sql.Rows) error {
			var says string
			if err := row.Scan(&says); err != nil {
				return err
			}
			return refuseEngine(says)
		})
	}
}

// engines are those that are refused, by a part of what they say. Where several fit, the first is right.
var engines = []struct{ says, name, why string }{
	{"CockroachDB", "CockroachDB", "it locks no tables, its transactions have no numbers in their order, and its partitions are no tables"},
	{"-YB-", "YugabyteDB", "its transactions have no numbers in their order, by which a run knows that none may still bring rows into its slot"},
	{"(MatrixDB", "YMatrix", segments},
	{"(Greenplum Database", "Greenplum", segments},
	{"Cloudberry", "Cloudberry", segments},
	{"openGauss", "openGauss", gauss},
	{"GaussDB", "GaussDB", gauss},
	{"(Materialize", "Materialize", "a transaction reads or inserts there, and never both, so that nothing can be claimed or recorded in one"},
	{"-RisingWave-", "RisingWave", "a transaction that writes is not begun there, though the server says so"},
	{"sys.iam_pg_role_mappings", "Aurora DSQL", "it has no PL/pgSQL, no partitions and no advisory locks"},
	{"extension aurora_limitless_fdw", "Aurora PostgreSQL Limitless Database", "it has no identity columns, attaches no partitions, and takes no CHECK that calls a function"},
	{"extension bdr", "EDB Postgres Distributed", "each of its nodes takes writes, conflicts are settled afterwards, and locks hold on one node alone"},
}

const (
	segments = "rows are spread over segments, and a unique index must have the columns they are spread by, so that the key of a check would not stay single"
	gauss    = "it comes from PostgreSQL 9.2, and has no insert ... on conflict"
)

func refuseEngine(says string) error {
	for _, e := range engines {
		if strings.Contains(says, e.says) {
			return &EngineError{Name: e.name, Why: e.why}
		}
	}
	return nil
}
