package sql

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaVersion is the version of the schema that this code works with: its last migration, and what the setting table
// states. A schema of a higher one will do as long as its usable_from is not higher, too.
const SchemaVersion = 16

// Migration is one step of the schema and whether a database has it.
type Migration struct {
	Version   int64     `json:"version"`
	Name      string    `json:"name"` // empty: this code has no such step, newer code has
	Applied   bool      `json:"applied"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
}

// ErrEncoding is returned for a database that cannot hold every text: one that does not fit would spoil all that is
// written together with it.
var ErrEncoding = errors.New("the database must have the encoding UTF8: create another one, with: create database ... encoding 'UTF8' template template0")

// ErrOldServer is returned for a server whose PostgreSQL is older than MinMajor.
var ErrOldServer = errors.New("prescient needs PostgreSQL 15 or newer")

// MinMajor is the oldest major version of PostgreSQL that is supported.
const MinMajor = 15

// Migrate brings the schema up to date, creating it first where it is missing, and is nothing to do when it is.
// A schema of newer code that this code may use is left as it is; of any other it returns ErrNewer. It returns ErrEncoding for
// a database that is not UTF8, ErrOldServer for a server that is too old, ErrReadOnly for a standby, and an EngineError for
// an engine that is refused.
// Where the schema has roles (see MakeRoles), they get what they need of what is new.
// Any number of processes may call it at once: an advisory lock lets one through at a time. The lock belongs to
// the session, so connect to PostgreSQL itself and not through a pooler in transaction mode.
func Migrate(ctx context.Context, db *sqlx.DB, schema Schema) error {
	if err := RefuseEngine(ctx, db); err != nil {
		return err
	}
	if err := createSchema(ctx, db, schema); err != nil {
		return err
	}
	if newer := refuseNewer(ctx, db, schema); newer != nil {
		if _, err := ReadSetting(ctx, db, schema); err == nil && errors.Is(newer, ErrNewer) {
			return nil // an old pod that is started anew beside new ones
		}
		return newer
	}
	p, err := provider(db, schema)
	if err != nil {
		return err
	}
	applied, err := up(ctx, p)
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schema, ExplainMissing(err))
	}
	err = keepRoles(ctx, db, schema)
	if len(applied) == 0 && HasState(err, pqerror.InsufficientPrivilege) {
		return nil // there was nothing to do, for whoever may do nothing
	}
	return err
}

// upAgain is how long a version table is waited for, each time.
const upAgain = 500 * time.Millisecond

// up applies what is left to be. The version table, which whoever comes first makes without a lock, is in the catalog a moment before
// sessions that have missed it find it: for as long as the other nodes take to commit it, on Citus.
func up(ctx context.Context, p *goose.Provider) (applied []*goose.MigrationResult, err error) {
	for range attempts {
		if applied, err = p.Up(ctx); !HasState(err, pqerror.UndefinedTable) {
			return applied, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(upAgain):
		}
	}
	return applied, err
}

// MigrateDown takes the schema back to a version; 0 drops every table with all that is in it. It returns ErrNewer where
// newer code was here: that alone knows the way back.
func MigrateDown(ctx context.Context, db *sqlx.DB, schema Schema, version int64) error {
	if err := refuseNewer(ctx, db, schema); err != nil {
		return err
	}
	p, err := provider(db, schema)
	if err != nil {
		return err
	}
	if _, err := p.DownTo(ctx, version); err != nil {
		return fmt.Errorf("migrate schema %s down to version %d: %w", schema, version, err)
	}
	return nil
}

// refuseNewer returns ErrNewer for a schema with steps that this code does not have.
func refuseNewer(ctx context.Context, db *sqlx.DB, schema Schema) error {
	steps, err := Migrations(ctx, db, schema)
	if err != nil || len(steps) == 0 {
		return err
	}
	if last := steps[len(steps)-1].Version; last > SchemaVersion {
		return fmt.Errorf("schema %s has version %d, and this binary knows %d: %w", schema, last, SchemaVersion, ErrNewer)
	}
	return nil
}

// Migrations lists every step, oldest first, and which of them the database has, those of newer code, too.
// Unlike Migrate it writes nothing, so a schema that does not exist has none.
func Migrations(ctx context.Context, db *sqlx.DB, schema Schema) ([]Migration, error) {
	p, err := provider(db, schema)
	if err != nil {
		return nil, err
	}
	type version struct {
		number int64
		at     time.Time
	}
	var versions []version
	err = ReadTx(ctx, db, func(tx *sqlx.Tx) error {
		var exists bool
		if err := tx.GetContext(ctx, &exists, `select to_regclass($1) is not null`, versionTable(schema)); err != nil || !exists {
			return err
		}
		versions, err = Collect(ctx, tx, MigrationApplied.In(schema), nil, func(row *sql.Rows, v *version) error {
			return row.Scan(&v.number, &v.at)
		})
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
	for _, source := range p.ListSources() {
		at, ok := applied[source.Version]
		list = append(list, Migration{Version: source.Version, Name: strings.TrimSuffix(source.Path, ".sql"), Applied: ok, AppliedAt: at})
	}
	for _, v := range versions { // in order
		if v.number > SchemaVersion {
			list = append(list, Migration{Version: v.number, Applied: true, AppliedAt: applied[v.number]})
		}
	}
	return list, nil
}

// PrintMigrations writes the whole schema as one script for psql, to be reviewed or run by somebody else.
// A database made by it counts as migrated.
func PrintMigrations(w io.Writer, schema Schema) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	var script strings.Builder
	table := versionTable(schema)
	fmt.Fprintf(&script, "begin;\n\ncreate schema if not exists %s;\n\n", pq.QuoteIdentifier(schema.String()))
	fmt.Fprintf(&script, "create table %s (\n    id integer primary key generated by default as identity,\n    version_id bigint not null,\n    is_applied boolean not null,\n    tstamp timestamp not null default now()\n);\n", table)
	fmt.Fprintf(&script, "insert into %s (version_id, is_applied) values (0, true);\n", table)
	for i, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			return err
		}
		script.WriteString(upPart(schema.qualify(string(text))))
		fmt.Fprintf(&script, "insert into %s (version_id, is_applied) values (%d, true);\n", table, i+1)
	}
	script.WriteString("\ncommit;\n")
	_, err = io.WriteString(w, script.String())
	return err
}

// upPart returns a migration without its way down and without the marks of the migration tool.
func upPart(text string) string {
	up, _, _ := strings.Cut(text, "-- +goose Down")
	var b strings.Builder
	for line := range strings.Lines(up) {
		if !strings.HasPrefix(line, "-- +goose") {
			b.WriteString(line)
		}
	}
	return "\n" + strings.TrimSpace(b.String()) + "\n\n"
}

// createSchema is apart from the migrations, since their version table is in the schema.
func createSchema(ctx context.Context, db *sqlx.DB, schema Schema) error {
	if _, err := ParseSchema(string(schema)); err != nil {
		return err
	}
	err := InTx(ctx, db, func(tx *sqlx.Tx) error {
		var plain, exists bool
		var encoding string
		var version int
		if err := tx.QueryRowContext(ctx, SchemaCheck.In(schema), schema.String()).Scan(&plain, &exists, &encoding, &version); err != nil {
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
		return fmt.Errorf("create schema %s: %w", schema, ExplainMissing(err))
	}
	return nil
}

// refuseOld judges a server_version_num, such as 150018 of PostgreSQL 15.18.
func refuseOld(version int) error {
	if version >= MinMajor*10000 {
		return nil
	}
	return fmt.Errorf("%w, and the server is of version %d.%d: upgrade it (pg_upgrade, or dump and restore), or point database.url at another one",
		ErrOldServer, version/10000, version%10000)
}

// versionTable needs no quotes: createSchema has refused every name that would.
func versionTable(schema Schema) string { return schema.String() + ".schema_migration" }

func provider(db *sqlx.DB, schema Schema) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db.DB, qualifiedFS{files, schema},
		goose.WithTableName(versionTable(schema)),
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// qualifiedFS serves .sql files with the names of one schema.
type qualifiedFS struct {
	fs.FS
	schema Schema
}

func (f qualifiedFS) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &qualifiedFile{File: file, text: bytes.NewReader([]byte(f.schema.qualify(string(text))))}, nil
}

type qualifiedFile struct {
	fs.File
	text *bytes.Reader
}

func (f *qualifiedFile) Read(p []byte) (int, error) { return f.text.Read(p) }
