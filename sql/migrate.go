package sql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/spoken"
)

// SchemaVersion is the version of the tables that this code works with: its last migration, and
// what the setting table states. This code also works with a schema of a higher version whose
// min_code_version is not higher than SchemaVersion.
//
// A release that changes functions raises the version, if only by a migration that changes no
// table. Otherwise `migrate up` of an older binary would bring the older functions back.
const SchemaVersion = 1

// functionsStep is the name of the step that replaces the functions, after the last migration.
const functionsStep = "functions"

// Migration is one step of the schema and whether a database has it. The steps are the migrations,
// which change tables, and the step that replaces the functions.
type Migration struct {
	Version   int64     `json:"version"`             // its number
	Name      string    `json:"name"`                // empty: only newer code has this step
	Applied   bool      `json:"applied"`             // the database has it
	AppliedAt time.Time `json:"applied_at,omitzero"` // UTC
}

// ErrEncoding is returned for a database that cannot hold every text. A text that does not fit
// would fail everything that is written with it.
var ErrEncoding = errors.New("the database must have the encoding UTF8: create another one, with: " +
	"create database ... encoding 'UTF8' template template0")

// ErrOldServer is returned for a server whose PostgreSQL is older than 15.
var ErrOldServer = errors.New("prescient needs PostgreSQL 15 or newer")

// Migrate brings the schema up to date, and creates it if it is missing. Idempotent.
//
// It applies the migrations that the database lacks. It replaces the functions if they are not
// those of this code, in the transaction of the last migration. It leaves a schema of newer code
// that this code may use as it is. If the schema has roles (see MakeRoles), they get what they need
// of what is new, in the same transaction. A migration may run beside applications and runs: it waits
// briefly for a locked table, gives up its locks, and tries again.
//
// Returns ErrLocked if a table stays locked, with the sessions that hold locks. Returns ErrNewer for
// a schema of newer code that this code must not use, ErrEncoding for a database that is not UTF8,
// ErrOldServer for a server that is too old, ErrReadOnly for a standby, and an EngineError for an
// engine that is refused.
//
// Any number of processes may call it concurrently: an advisory lock lets one through at a time.
// The lock belongs to the session, so connect to PostgreSQL itself and not through a pooler in
// transaction mode.
func Migrate(ctx context.Context, db Pool, schema Schema) error {
	if err := RefuseEngine(reserved.Caller{}, ctx, db); err != nil {
		return err
	}
	if err := createSchema(ctx, db, schema); err != nil {
		return err
	}
	if newer := refuseNewer(ctx, db, schema); newer != nil {
		if _, err := ReadSetting(ctx, db, schema); err == nil && errors.Is(newer, ErrNewer) {
			return nil // an old pod that starts again beside new ones
		}
		return newer
	}
	p, err := provider(db, schema, migrations())
	if err != nil {
		return err
	}
	applied, err := up(ctx, db, schema, p, lockTries)
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, pg.ExplainMissing(err))
	}
	if len(applied) > 0 {
		return nil
	}
	replaced, err := replaceFunctions(ctx, db, schema)
	if err != nil {
		return fmt.Errorf("replace the functions of schema %s: %w", schema, pg.ExplainMissing(err))
	}
	if replaced {
		return nil
	}
	err = keepRoles(ctx, db, schema)
	if pg.HasState(err, pqerror.InsufficientPrivilege) {
		return nil // a role without rights may call Migrate if nothing is left to do
	}
	return err
}

const (
	// lockWait is how long a statement that changes a table waits for a lock. Statements of applications and
	// runs wait behind it. It is shorter than PostgreSQL's deadlock_timeout, after which the server would
	// end the change or a transaction of an application.
	lockWait = 300 * time.Millisecond

	// lockTries is how often a migration waits for its locks.
	lockTries = 60

	// dropTries is how often MigrateDown waits for its locks.
	dropTries = 5

	// tryAgain is how long patiently waits before it tries again.
	tryAgain = 500 * time.Millisecond
)

// ErrLocked is returned if a table stays locked, so that it cannot be changed.
var ErrLocked = errors.New("other sessions have kept a table locked, so nothing has changed: " +
	"end their transactions, and try again")

// waitBriefly bounds the waits for locks in the rest of a transaction.
var waitBriefly = fmt.Sprintf("set local lock_timeout = %d", lockWait.Milliseconds())

// patiently calls fn, which changes tables, again if another transaction holds one of them. fn gives up its locks
// meanwhile, so nothing waits for long behind it. It calls fn as often as tries says.
func patiently(ctx context.Context, db Pool, schema Schema, tries int, fn func() error) error {
	for n := 1; ; n++ {
		err := fn()
		if !pg.IsLockTimeout(err) && !pg.HasState(err, pqerror.TRDeadlockDetected) {
			return err
		}
		if n == tries {
			lasted := time.Duration(tries)*(lockWait+tryAgain) - tryAgain
			holders := cmp.Or(lockHolders(ctx, db, schema, schema.String(), lasted),
				lockHolders(ctx, db, schema, pg.Rules.In(schema), lasted))
			if holders == "" {
				return fmt.Errorf("%w. The oldest are in pg_stat_activity and pg_prepared_xacts: %w", ErrLocked, err)
			}
			return fmt.Errorf("%w. Locks are held by %s: %w", ErrLocked, holders, err)
		}
		if !elapsed.Sleep(ctx, tryAgain) {
			return err
		}
	}
}

// lockHolders returns the sessions that may have held a lock on a table for a time, and the statement that ends each.
// See statement migration_holders. Empty: the transaction has ended, or is a prepared one.
func lockHolders(ctx context.Context, db Pool, schema Schema, of string, lasted time.Duration) string {
	var list []string
	err := ReadTx(ctx, db, func(tx *sqlx.Tx) (err error) {
		list, err = pg.Collect(ctx, tx, pg.MigrationHolders.In(schema), []any{of, lasted.Seconds()},
			func(row *sql.Rows, text *string) error {
				var holder, mends string
				var since sql.NullTime
				err := row.Scan(&holder, &since, &mends)
				if since.Valid {
					holder += " since " + spoken.Instant(since.Time)
				}
				*text = fmt.Sprintf("%s, which %s ends", holder, mends)
				return err
			})
		return err
	})
	if err != nil {
		return ""
	}
	return strings.Join(list, "; ")
}

// up applies the missing migrations. The first process creates the version table without a lock: a session that looked
// before finds it a moment later; on Citus, once the other nodes have committed. So up tries again. It also does if
// another transaction holds a table, see patiently.
func up(
	ctx context.Context, db Pool, schema Schema, p *goose.Provider, tries int,
) (applied []*goose.MigrationResult, err error) {
	err = patiently(ctx, db, schema, tries, func() (err error) {
		for range pg.Attempts {
			applied, err = p.Up(ctx)
			if !pg.HasState(err, pqerror.UndefinedTable) || !elapsed.Sleep(ctx, tryAgain) {
				return err
			}
		}
		return err
	})
	return applied, err
}

// replaceFunctions applies the functions of this code if the schema has others, and tells whether
// it did. The functions of newer code stay.
func replaceFunctions(ctx context.Context, db Pool, schema Schema) (replaced bool, err error) {
	change := func(tx *sqlx.Tx) error {
		replaced = false
		current, _, err := functionsState(ctx, tx, schema)
		if err != nil || current {
			return err
		}
		if _, err := tx.ExecContext(ctx, `select pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
			return err
		}
		// Newer code may have migrated while this waited for its turn.
		applied, err := pg.Collect(ctx, tx, pg.MigrationApplied.In(schema), nil, func(row *sql.Rows, v *int64) error {
			return row.Scan(v, new(time.Time))
		})
		if err != nil || len(applied) > 0 && applied[len(applied)-1] > SchemaVersion {
			return err
		}
		replaced = true
		return applyFunctions(ctx, tx, schema)
	}
	err = patiently(ctx, db, schema, lockTries, func() error { return InTx(ctx, db, change) })
	return replaced, err
}

// MigrateDown drops every table, type and function of prescient in the schema, with every row. It
// drops the schema too if nothing else is in it. Returns ErrNewer for a schema of newer code,
// because only that code knows what to drop, and ErrLocked if a table stays locked for some seconds.
// Idempotent.
func MigrateDown(_ reserved.Caller, ctx context.Context, db Pool, schema Schema) error {
	if err := refuseNewer(ctx, db, schema); err != nil {
		return err
	}
	drop := func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `select pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, dropScript(schema))
		return err
	}
	err := patiently(ctx, db, schema, dropTries, func() error { return InTx(ctx, db, drop) })
	if e, ok := errors.AsType[*pq.Error](err); ok && e.Detail != "" {
		err = fmt.Errorf("%w: %s", err, e.Detail) // the objects that depend on it
	}
	if err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	return nil
}

// refuseNewer returns ErrNewer for a schema with steps that this code does not have.
func refuseNewer(ctx context.Context, db Pool, schema Schema) error {
	steps, err := Migrations(reserved.Caller{}, ctx, db, schema)
	if err != nil || len(steps) == 0 {
		return err
	}
	if last := steps[len(steps)-1].Version; last > SchemaVersion {
		return fmt.Errorf("schema %s has version %d, and this binary knows %d: %w", schema, last, SchemaVersion, ErrNewer)
	}
	return nil
}

// Migrations lists every step, oldest first, and whether the database has it. Steps of newer code
// are included. Unlike Migrate it writes nothing, so a schema that does not exist has none.
func Migrations(_ reserved.Caller, ctx context.Context, db Pool, schema Schema) ([]Migration, error) {
	type version struct {
		number int64
		at     time.Time
	}
	var versions []version
	latest := Migration{Version: SchemaVersion, Name: functionsStep}
	err := ReadTx(ctx, db, func(tx *sqlx.Tx) (err error) {
		versions = nil
		var exists bool
		if err := tx.GetContext(ctx, &exists, `select to_regclass($1) is not null`, versionTable(schema)); err != nil ||
			!exists {
			return err
		}
		versions, err = pg.Collect(ctx, tx, pg.MigrationApplied.In(schema), nil, func(row *sql.Rows, v *version) error {
			return row.Scan(&v.number, &v.at)
		})
		if err != nil || len(versions) == 0 || versions[len(versions)-1].number < SchemaVersion {
			return err
		}
		latest.Applied, latest.AppliedAt, err = functionsState(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	applied := map[int64]time.Time{}
	for _, v := range versions {
		applied[v.number] = v.at.UTC()
	}
	var list []Migration
	for _, m := range migrations() {
		at, ok := applied[m.version()]
		list = append(list, Migration{Version: m.version(), Name: m.name, Applied: ok, AppliedAt: at})
	}
	list = append(list, latest)
	for _, v := range versions { // by version
		if v.number > SchemaVersion {
			list = append(list, Migration{Version: v.number, Applied: true, AppliedAt: applied[v.number]})
		}
	}
	return list, nil
}

// PrintMigrations writes the whole schema as one script for psql, which a DBA may review and run. A
// database that the script made counts as migrated.
func PrintMigrations(_ reserved.Caller, w io.Writer, schema Schema) error {
	var script strings.Builder
	table := versionTable(schema)
	fmt.Fprintf(&script, "begin;\n\ncreate schema if not exists %s;\n\n", pq.QuoteIdentifier(schema.String()))
	fmt.Fprintf(&script,
		"create table %s (\n    id integer primary key generated by default as identity,\n"+
			"    version_id bigint not null,\n    is_applied boolean not null,\n"+
			"    tstamp timestamp not null default now()\n);\n", table)
	fmt.Fprintf(&script, "insert into %s (version_id, is_applied) values (0, true);\n", table)
	for _, m := range migrations() {
		fmt.Fprintf(&script, "\n%s\n\n", strings.TrimSpace(schema.qualify(m.text)))
		fmt.Fprintf(&script, "insert into %s (version_id, is_applied) values (%d, true);\n", table, m.version())
	}
	script.WriteString("\n-- The functions. Their bodies name each other.\nset local check_function_bodies = off;\n\n")
	for _, f := range functions() {
		fmt.Fprintf(&script, "%s\n\n", strings.TrimSpace(schema.qualify(f.text)))
	}
	fmt.Fprintf(&script, "%s\n\ncommit;\n", strings.Join(functionsApplied(schema), "\n"))
	_, err := io.WriteString(w, script.String())
	return err
}

// createSchema is separate from the migrations, because their version table is in the schema.
func createSchema(ctx context.Context, db Pool, schema Schema) error {
	if _, err := ParseSchema(string(schema)); err != nil {
		return err
	}
	err := InTx(ctx, db, func(tx *sqlx.Tx) error {
		var plain, exists bool
		var encoding string
		var version int
		if err := tx.QueryRowContext(ctx, pg.SchemaCheck.In(schema), schema.String()).Scan(&plain, &exists, &encoding,
			&version); err != nil {
			return err
		}
		if err := refuseOld(version); err != nil {
			return err
		}
		switch {
		case !plain:
			return errors.New("the name is a key word of SQL; choose another in database.schema")
		case encoding != "UTF8":
			return fmt.Errorf("%w; it is %s", ErrEncoding, encoding)
		case exists:
			return nil
		}
		if _, err := tx.ExecContext(ctx, `select pg_advisory_xact_lock($1)`, lock.DefaultLockID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `create schema if not exists `+pq.QuoteIdentifier(schema.String()))
		return err
	})
	if err != nil {
		return fmt.Errorf("create schema %s: %w", schema, pg.ExplainMissing(err))
	}
	return nil
}

// refuseOld returns ErrOldServer for a server_version_num that is too low; 150018 is PostgreSQL
// 15.18.
func refuseOld(version int) error {
	if version >= pg.MinMajor*10000 {
		return nil
	}
	return fmt.Errorf("%w, and the server has version %d.%d: upgrade it (pg_upgrade, or dump and restore), "+
		"or point database.url at another one",
		ErrOldServer, version/10000, version%10000)
}

// versionTable needs no quotes: createSchema refuses every name that does.
func versionTable(schema Schema) string { return schema.String() + "." + versionTableName }

// turn lets one process at a time migrate. It waits in the server, so pg_locks shows who has the turn.
type turn struct{}

// SessionLock waits for the turn, longer than the timeouts of the role. The session has it after the transaction.
func (turn) SessionLock(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, statement := range []string{
		"set local lock_timeout = 0", pg.Lifted, pg.LiftedIfKnown,
		fmt.Sprintf("select pg_advisory_lock(%d)", lock.DefaultLockID),
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// SessionUnlock ends the turn.
func (turn) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `select pg_advisory_unlock($1)`, lock.DefaultLockID)
	return err
}

// provider applies the migrations with goose, which keeps the version table, and the functions with
// the last migration.
func provider(db Pool, schema Schema, migrations []source) (*goose.Provider, error) {
	var steps []*goose.Migration
	for _, m := range migrations {
		steps = append(steps,
			goose.NewGoMigration(m.version(), &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
				for _, statement := range append([]string{pg.Lifted, pg.LiftedIfKnown, waitBriefly}, m.statements(schema)...) {
					if _, err := tx.ExecContext(ctx, statement); err != nil {
						return err
					}
				}
				if m.version() < SchemaVersion {
					return nil
				}
				return applyFunctions(ctx, tx, schema)
			}}, nil))
	}
	p, err := goose.NewProvider(goose.DialectPostgres, pg.Sqlx(db).DB, nil,
		goose.WithTableName(versionTable(schema)),
		goose.WithSessionLocker(turn{}),
		goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(steps...),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", err)
	}
	return p, nil
}
