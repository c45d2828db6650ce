package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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

// UseOwnSettings makes prescient's own settings in a transaction on a pool that is not one of [Open].
func UseOwnSettings(ctx context.Context, tx execer) error {
	_, err := tx.ExecContext(ctx, errorsForHidden)
	return err
}

// beginOwn begins a transaction with prescient's own settings, in one message.
func (c *conn) beginOwn(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	mode := ownMode
	if sql.IsolationLevel(opts.Isolation) == sql.LevelSerializable {
		mode = "isolation level serializable, not deferrable"
	}
	access := "read write"
	if opts.ReadOnly {
		access = "read only"
	}
	_, err := c.Conn.ExecContext(ctx, fmt.Sprintf("begin %s, %s;\n%s", mode, access, errorsForHidden), nil)
	if err = c.noteBegin(opts.ReadOnly, err); err != nil {
		return nil, err
	}
	return ownTx{c}, nil
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
