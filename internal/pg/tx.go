package pg

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/seq"
)

// ErrNotMigrated is returned if the schema is missing or older than the code.
var ErrNotMigrated = errors.New("the database has no prescient schema of this version: " +
	"run `prescient migrate up` (as a role that may create tables)")

// ErrNewer is returned if the schema is newer than the code.
var ErrNewer = errors.New("the database was migrated by a newer version of prescient: install that version")

// ErrReadOnly is returned if a write reaches a server or a transaction that only reads.
var ErrReadOnly = errors.New("the database is a hot standby, or the transaction is read-only: " +
	"point database.url at the primary, or begin one that may write")

// ErrStatementPooling is returned if PgBouncer ends each transaction after its first statement.
var ErrStatementPooling = errors.New("PgBouncer is in statement mode, which allows no transactions: " +
	"set pool_mode = transaction for this database, or point database.url at PostgreSQL itself")

// ErrNoDatabase is returned if a call gets neither a *sql.DB nor a *sqlx.DB.
var ErrNoDatabase = errors.New("there is no database: db is nil, or neither a *sql.DB nor a *sqlx.DB")

// InTx runs fn in a transaction that commits when fn returns nil. It runs fn again if the server
// ended the transaction because of another one (a deadlock or a serialization failure). So fn must
// be repeatable.
//
// The transaction is READ COMMITTED, and fails if row security would hide rows from it.
//
// Every statement goes through a transaction, reads too. database/sql silently repeats an
// autocommit statement when the connection drops. A pooler in transaction mode mixes up the answers
// of parameterised statements outside one.
func InTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return inTx(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, fn)
}

// SerializableTx is InTx for a function that reads, decides and then writes. fn sees one snapshot.
// It runs again if another transaction changed a row that it changes, or if another SerializableTx
// wrote what it read.
func SerializableTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return inTx(ctx, db, &sql.TxOptions{Isolation: sql.LevelSerializable}, fn)
}

// ReadTx is InTx for a function that only reads, on a hot standby too.
func ReadTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return inTx(ctx, db, &sql.TxOptions{Isolation: sql.LevelReadCommitted, ReadOnly: true}, fn)
}

// SnapshotTx is ReadTx for a function whose statements see one snapshot. On Citus each node has its own.
func SnapshotTx(ctx context.Context, db Pool, fn func(tx *sqlx.Tx) error) error {
	return inTx(ctx, db, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}, fn)
}

func inTx(ctx context.Context, db Pool, opts *sql.TxOptions, fn func(tx *sqlx.Tx) error) error {
	pool := Sqlx(db)
	if pool == nil {
		return ErrNoDatabase
	}
	work := fn
	if !Ours(pool) {
		work = func(tx *sqlx.Tx) error {
			if err := UseOwnSettings(ctx, tx); err != nil {
				return err
			}
			return fn(tx)
		}
	}
	return Retry(func() error {
		return Commit(func() (*sqlx.Tx, error) { return pool.BeginTxx(Own(ctx), opts) }, work)
	})
}

// Attempts is how often Retry runs its function at most.
const Attempts = 5

// Retry runs fn, a whole transaction, again while IsRetryable or IsStale says so of its error.
func Retry(fn func() error) error {
	var err error
	for range Attempts {
		if err = fn(); !IsRetryable(err) && !IsStale(err) {
			return err
		}
	}
	return err
}

// Commit runs fn in the transaction that begin returns, which commits when fn returns nil.
func Commit[T interface {
	Commit() error
	Rollback() error
}](begin func() (T, error), fn func(tx T) error) error {
	tx, err := begin()
	if err != nil {
		return fmt.Errorf("begin transaction: %w", explainBegin(err))
	}
	// A panic or runtime.Goexit in fn also gets here. After a commit it does nothing.
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// explainBegin explains the error of BEGIN on a standby or through PgBouncer in statement mode. It hides a URL that an
// application's driver could not parse, because it may hold a password.
func explainBegin(err error) error {
	if _, unparsed := errors.AsType[*url.Error](err); unparsed {
		return ErrURL
	}
	switch {
	case HasState(err, pqerror.FeatureNotSupported):
		return fmt.Errorf("%w (%w)", ErrReadOnly, err)
	case poolsStatements(err):
		return fmt.Errorf("%w (%w)", ErrStatementPooling, err)
	}
	return err
}

// poolsStatements tells whether err is PgBouncer's about the beginning of a transaction in statement
// mode. Its code is that of a broken connection.
func poolsStatements(err error) bool {
	return err != nil && HasState(err, pqerror.ProtocolViolation) &&
		strings.Contains(err.Error(), statementPooling)
}

// statementPooling is the end of PgBouncer's message, which is always in English.
const statementPooling = "in statement pooling mode"

// IsRetryable tells whether err ended a transaction that may succeed when repeated as a whole.
func IsRetryable(err error) bool {
	return HasState(err, pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected)
}

// IsLockTimeout tells whether err says that a row or table was locked for longer than lock_timeout.
func IsLockTimeout(err error) bool {
	return HasState(err, pqerror.LockNotAvailable)
}

// IsTransient tells whether err comes from a broken connection, a failover, or a server that is
// starting, stopping or out of connections. The statement may succeed soon. After a commit, its
// outcome is unknown.
func IsTransient(err error) bool {
	if err == nil || poolsStatements(err) || errors.Is(err, ErrStatementPooling) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, demoted := errors.AsType[*demotedError](err); demoted {
		return true
	}
	if state := State(err); state != "" {
		class := state.Class()
		return class == pqerror.ClassConnectionException || class == pqerror.ClassInsufficientResources ||
			state == pqerror.AdminShutdown || state == pqerror.CrashShutdown || state == pqerror.CannotConnectNow
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, errUnwanted) || errors.Is(err, errSilent) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ExplainMissing turns the server's error about something missing into an error that says what to
// do. A missing table, schema or function becomes ErrNotMigrated; a refused write becomes
// ErrReadOnly; a statement from which row security would hide rows becomes ErrRowSecurity.
func ExplainMissing(err error) error {
	var what error
	switch {
	case HasState(err, pqerror.UndefinedTable, pqerror.InvalidSchemaName, pqerror.UndefinedFunction,
		pqerror.UndefinedColumn):
		what = ErrNotMigrated
	case HasState(err, pqerror.ReadOnlySQLTransaction):
		what = ErrReadOnly
	case poolsStatements(err):
		what = ErrStatementPooling
	case IsRowSecurity(err):
		what = ErrRowSecurity
	default:
		return err
	}
	if errors.Is(err, what) {
		return err
	}
	return fmt.Errorf("%w (%w)", what, err)
}

// Querier is implemented by transactions and pools.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// One runs a query and reads its first row into dest. Returns [sql.ErrNoRows] if there is none.
func One(ctx context.Context, q Querier, query string, args []any, dest ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		return cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return rows.Close()
}

// Columns returns a list as parameters for unnest: for each column of its rows an array of texts, which the statement
// casts to the type of the column. The list must not be empty.
func Columns[T any](list []T, row func(T) []string) []any {
	columns := make([]pq.StringArray, len(row(list[0])))
	for _, v := range list {
		for i, text := range row(v) {
			columns[i] = append(columns[i], text)
		}
	}
	return seq.Map(columns, func(column pq.StringArray) any { return column })
}

// Collect runs a query and returns its rows, each filled in by scan.
func Collect[T any](
	ctx context.Context, q Querier, query string, args []any, scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	return Append(ctx, q, nil, query, args, scan)
}

// Append is Collect for a list that has room already.
func Append[T any](
	ctx context.Context, q Querier, list []T, query string, args []any, scan func(row *sql.Rows, v *T) error,
) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		list = append(list, *new(T))
		if err := scan(rows, &list[len(list)-1]); err != nil {
			return nil, err
		}
	}
	return list, rows.Err()
}
