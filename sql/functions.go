package sql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3/lock"

	"github.com/prescient-go/prescient/internal/pg"
)

// functionsHash identifies the functions of this code: it returns the SHA-256 of all files of sql/functions.
var functionsHash = sync.OnceValue(func() string { return hashOf(functions()...) })

// hashOf returns the SHA-256 of the names and texts of files, in hexadecimal.
func hashOf(files ...source) string {
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%s\x00%s\x00", f.name, f.text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// execer is a transaction of sqlx or of database/sql.
type execer interface {
	pg.Querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// applyFunctions replaces the functions in the schema by those of this code, and makes the next
// months of history. If the schema has roles, it grants them what they need of both. The caller's
// transaction holds the lock of migrations until it ends, so no other process migrates meanwhile.
//
// It turns off the check of function bodies: functions call each other, so no order of the files
// would satisfy it.
func applyFunctions(ctx context.Context, tx execer, schema Schema) error {
	if _, err := tx.ExecContext(ctx, `select pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
		return err
	}
	made, err := rolesMade(ctx, tx, schema)
	if err != nil {
		return err
	}
	statements := append([]string{waitBriefly, "set local check_function_bodies = off"}, functionStatements(schema)...)
	if made {
		script, err := rolesScript(schema)
		if err != nil {
			return err
		}
		statements = append(statements, script)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return explainRole(err)
		}
	}
	return nil
}

// functionStatements returns the statements that create or replace every function.
func functionStatements(schema Schema) []string {
	var all []string
	for _, f := range functions() {
		all = append(all, f.statements(schema)...)
	}
	return append(all, functionsApplied(schema)...)
}

// functionsApplied returns the statements that follow the functions. They record which functions
// there are, and make the next months of history.
func functionsApplied(schema Schema) []string {
	return []string{
		schema.qualify("update prescient.setting\nset functions = '" + functionsHash() + "',\n" +
			"    functions_at = statement_timestamp();"),
		schema.qualify("select prescient.make_history_months();"),
	}
}

// functionsState tells whether the schema has the functions of this code, and since when. The time
// is zero if the schema has others, or was renamed: the bodies of functions name their schema.
func functionsState(ctx context.Context, tx *sqlx.Tx, schema Schema) (current bool, since time.Time, err error) {
	var hash string
	var at int64 // microseconds since 1970
	var here bool
	err = tx.GetContext(ctx, &here, pg.FunctionsHere.In(schema), schema.qualify("prescient.setting"))
	if err != nil || !here {
		return false, time.Time{}, err
	}
	err = tx.QueryRowContext(ctx, pg.FunctionsApplied.In(schema)).Scan(&hash, &at)
	if err != nil || hash != functionsHash() {
		return false, time.Time{}, err
	}
	return true, time.UnixMicro(at).UTC(), nil
}
