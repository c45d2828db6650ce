package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The settings of the transactions that prescient begins for itself, whatever the role or the
// database has set. They are local to the transaction, so they work through a pooler too. A check's
// own transaction has those of its login.
const (
	// ownMode follows "begin" or "set transaction". A serializable transaction that only reads and
	// is deferrable would wait for the end of all transactions that write.
	ownMode = "isolation level read committed, not deferrable"

	// errorsForHidden makes the server refuse a statement on a table with row security, which would
	// hide rows.
	errorsForHidden = "set local row_security = off"

	// Lifted lifts what a server, a role or a database may have set to end statements and transactions, because prescient
	// bounds its work itself. Callers with a bound of their own set it afterwards. liftedSince17 lifts what PostgreSQL 17
	// added. The other settings of this kind stay: lock_timeout, whose error names it, and idle_session_timeout, after
	// which the pool takes another connection.
	Lifted        = "set local statement_timeout = 0;\nset local idle_in_transaction_session_timeout = 0"
	liftedSince17 = "set local transaction_timeout = 0"

	// LiftedIfKnown is liftedSince17 for a server of any version. Planning it costs 25 us.
	LiftedIfKnown = "select set_config('transaction_timeout', '0', true) " +
		"where current_setting('transaction_timeout', true) is not null"

	// ownSettings are those of each transaction of a command. The server compiles nothing (JIT) for one, because that
	// costs a read of history or of the ledger more than it saves.
	ownSettings = errorsForHidden + ";\nset local jit = off;\n" + Lifted

	// ownSettingsAtOnce is ownSettings and LiftedIfKnown in one statement.
	ownSettingsAtOnce = "select set_config(name, value, true) from (values ('row_security', 'off'), ('jit', 'off'), " +
		"('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0')) " +
		"as own (name, value) where current_setting(name, true) is not null"

	// ownPath keeps functions and operators of other schemas out of the statements of a run. A
	// transaction of a command has the path of its login, because it also reads tables of applications.
	ownPath = "set local search_path = pg_catalog, pg_temp"
)

// ErrRowSecurity is returned if row security would hide rows of prescient's tables.
var ErrRowSecurity = errors.New("row security would hide rows, so the server refuses: " +
	"disable it for prescient's tables (alter table ... disable row level security); `prescient doctor` lists them")

// ownKey marks the context of a transaction of prescient's own.
type ownKey struct{}

// Own returns a context with which BeginTx begins a transaction that has prescient's own settings.
// On a pool of [Open] they cost no round trip. With [Ours] the caller finds out whether they are
// still to be made.
func Own(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// Ours tells whether the driver of a pool heeds Own.
func Ours(db interface{ Driver() driver.Driver }) bool {
	_, ours := db.Driver().(lazyDriver)
	return ours
}

// execer is a transaction of sqlx or of database/sql.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// UseOwnSettings makes prescient's own settings in a transaction on a pool that is not one of [Open].
func UseOwnSettings(ctx context.Context, tx execer) error {
	_, err := tx.ExecContext(ctx, ownSettingsAtOnce)
	return err
}

// Lift returns Lifted for a [Message] to a server whose version is known, such as 15.18. It leaves
// idle_in_transaction_session_timeout to the caller.
func Lift(version string) string {
	lift := "set local statement_timeout = 0"
	var major int
	if _, err := fmt.Sscan(version, &major); err == nil && major >= 17 {
		lift += "; " + liftedSince17
	}
	return lift
}

// beginOwn begins a transaction with prescient's own settings, in one message.
func (c *conn) beginOwn(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	mode := ownMode
	switch level := sql.IsolationLevel(opts.Isolation); level {
	case sql.LevelReadCommitted:
	case sql.LevelRepeatableRead:
		mode = "isolation level repeatable read, not deferrable"
	case sql.LevelSerializable:
		mode = "isolation level serializable, not deferrable"
	default:
		return nil, fmt.Errorf("begin transaction of prescient: unknown isolation level %s", level)
	}
	access := "read write"
	if opts.ReadOnly {
		access = "read only"
	}
	err := c.beginWith(ctx, fmt.Sprintf("begin %s, %s;\n%s;\n", mode, access, ownSettings))
	if err = c.noteBegin(opts.ReadOnly, err); err != nil {
		return nil, err
	}
	return ownTx{c}, nil
}

// beginWith sends the message that begins a transaction. The first one of a connection finds out which settings the
// server has.
func (c *conn) beginWith(ctx context.Context, message string) error {
	if c.lifts != nil {
		_, err := c.Conn.ExecContext(ctx, message+*c.lifts, nil)
		return err
	}
	rows, err := c.Conn.QueryContext(ctx, message+LiftedIfKnown, nil)
	if err != nil {
		return err
	}
	switch err = rows.Next(make([]driver.Value, 1)); {
	case err == nil:
		c.lifts = new(liftedSince17)
	case errors.Is(err, io.EOF):
		c.lifts, err = new(""), nil
	}
	return errors.Join(err, rows.Close())
}

// ownTx is a transaction of beginOwn.
type ownTx struct{ conn *conn }

// Commit fails if a statement of the transaction has failed: then the first statement of its
// message does. A commit alone would be a rollback without an error.
func (t ownTx) Commit() error {
	_, err := t.conn.Conn.ExecContext(context.Background(), "select;\ncommit", nil)
	if State(err) != "" {
		return errors.Join(err, t.Rollback())
	}
	return t.conn.note(err)
}

func (t ownTx) Rollback() error {
	_, err := t.conn.Conn.ExecContext(context.Background(), "rollback", nil)
	t.conn.broken = t.conn.broken || err != nil
	return err
}

// beginMessage begins the text of a message that is a transaction of its own.
func beginMessage(settings string) string {
	return strings.Join([]string{"begin " + ownMode + ", read write", errorsForHidden, ownPath, settings, ""}, ";\n")
}
