package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// lazyKey marks contexts for the connections of a pool of Open.
type lazyKey string

const (
	lazy lazyKey = "the transaction begins with its first statement; the value is a lazyTx for the connection"
	last lazyKey = "the transaction commits with this message; the value tells whether that is the end of it"
	free lazyKey = "the message does not end with the context of the transaction"
)

// LazyTx is a transaction that [Message.CommitTx] or End ends. On a pool of [Open] it costs no
// round trips of its own: begin goes out with the first statement, commit with the last.
type LazyTx struct {
	*sqlx.Tx
	conn    *sqlx.Conn  // End gives it back; nil: the transaction does
	cleanup []string    // SQL that runs with a rollback
	keep    func() bool // cancels the rollback at the end of the context; false: it has begun
	foreign *sqlx.Conn  // connection of another driver's pool; nil: there is no cleanup, or conn has it
	done    bool        // committed on a pool of another driver
	kept    bool        // SendTx has called keep
}

// BeginLazy begins a transaction that is rolled back when ctx ends. If the connection has broken
// meanwhile, the first statement returns the error. Always call End.
//
// cleanup runs after every rollback, outside the transaction, because the check may have ended its
// transaction early and left session state behind. On a pool of another driver, End runs it.
func BeginLazy(ctx context.Context, db *sqlx.DB, cleanup ...string) (*LazyTx, error) {
	_, ours := db.Driver().(lazyDriver)
	if !ours && len(cleanup) > 0 {
		return beginForeign(ctx, db, cleanup)
	}
	if !ours {
		tx, err := db.BeginTxx(ctx, nil)
		return &LazyTx{Tx: tx, keep: func() bool { return true }}, explainBegin(err)
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	return (&LazyTx{conn: conn, cleanup: cleanup}).begin(ctx, false)
}

// begin begins another transaction like t; on an error it gives the connection back. begun: the
// server has already begun it.
func (t *LazyTx) begin(ctx context.Context, begun bool) (*LazyTx, error) {
	conn := t.conn
	// Not under ctx: database/sql would drop the answer to a commit that arrives after ctx ended.
	tx, err := conn.BeginTxx(context.WithValue(context.WithoutCancel(ctx), lazy,
		lazyTx{ctx: ctx, begun: begun, cleanup: t.cleanup}), nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	keep := context.AfterFunc(ctx, func() { _ = errors.Join(tx.Rollback(), conn.Close()) })
	return &LazyTx{Tx: tx, conn: conn, cleanup: t.cleanup, keep: keep}, nil
}

// Chains tells whether the message that commits this transaction can begin another.
func (t *LazyTx) Chains() bool { return t.conn != nil }

// End rolls back what is not committed, and gives the connection back. Idempotent.
func (t *LazyTx) End() {
	t.keep()
	_ = t.Rollback()
	if t.conn != nil {
		_ = t.conn.Close()
	}
	if t.foreign != nil {
		t.cleanUpForeign()
	}
}

// beginForeign is BeginLazy on a pool of another driver, for a transaction with a cleanup.
func beginForeign(ctx context.Context, db *sqlx.DB, cleanup []string) (*LazyTx, error) {
	conn, err := db.Connx(ctx)
	if err != nil {
		return nil, explainBegin(err)
	}
	tx, err := conn.BeginTxx(ctx, nil)
	if err != nil {
		return nil, errors.Join(explainBegin(err), conn.Close())
	}
	keep := context.AfterFunc(ctx, func() { _ = errors.Join(tx.Rollback(), giveUp(conn), conn.Close()) })
	return &LazyTx{Tx: tx, foreign: conn, cleanup: cleanup, keep: keep}, nil
}

// cleanupTimeout bounds the cleanup on a pool of another driver.
const cleanupTimeout = 5 * time.Second

// cleanUpForeign runs the cleanup, unless the transaction was committed, and gives the connection
// back. If the cleanup fails, it closes the connection.
func (t *LazyTx) cleanUpForeign() {
	defer func() { _ = t.foreign.Close() }()
	if t.done {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	if _, err := t.foreign.ExecContext(ctx, strings.Join(t.cleanup, "; ")); err != nil {
		_ = giveUp(t.foreign)
	}
}

// giveUp closes a connection, so that its pool does not use it again.
func giveUp(conn *sqlx.Conn) error { return conn.Raw(func(any) error { return driver.ErrBadConn }) }

// CommitTx sends the message and commits its transaction. An error of the server means that nothing
// was committed. So does [sql.ErrTxDone]: the transaction has ended before. After an error of
// [Message.Add] the transaction goes on. Any other error leaves open whether it was committed.
func (m *Message) CommitTx(ctx context.Context, tx *LazyTx) error {
	return m.commitTx(ctx, tx, len(m.scans), true)
}

// SendTx sends the message as a part of the commit: from then on the transaction no longer ends with
// its context, as with [Message.CommitTx], which sends the last part.
func (m *Message) SendTx(ctx context.Context, tx *LazyTx) error {
	if m.err != nil {
		return m.err
	}
	if !tx.kept && !tx.keep() {
		return sql.ErrTxDone
	}
	tx.kept = true
	_, err := m.send(context.WithValue(ctx, free, true), tx, m.text.String())
	return err
}

// commitTx commits once the given number of answers has arrived. ends: no transaction follows on
// the connection.
func (m *Message) commitTx(ctx context.Context, tx *LazyTx, after int, ends bool) error {
	if m.err != nil {
		return m.err
	}
	if !tx.kept && !tx.keep() {
		return sql.ErrTxDone
	}
	answered, err := m.send(context.WithValue(ctx, last, ends), tx, m.text.String())
	if err == nil {
		err = tx.Commit()
		tx.done = err == nil
	}
	if answered >= after && err != nil {
		return &CommitError{err}
	}
	return err
}

// CommitAndBegin is CommitTx for a transaction that Chains. The same message begins another
// transaction on its connection, with first as its first message. Call begun once: it returns that
// transaction, which is rolled back when its context ends. Any error leaves open whether the first
// transaction was committed, except [sql.ErrTxDone] and an error of [Message.Add] of either
// message.
func (m *Message) CommitAndBegin(
	ctx context.Context, tx *LazyTx, first *Message,
) (begun func(ctx context.Context) (*LazyTx, error), err error) {
	after := len(m.scans)
	m.Do("commit")
	m.Do("begin read write")
	m.text.WriteString(first.text.String())
	m.parts = append(m.parts, first.parts...)
	m.scans = append(m.scans, first.scans...)
	m.fail(first.err)
	if err := m.commitTx(ctx, tx, after, false); err != nil {
		return nil, err
	}
	next := *tx
	next.kept = false
	tx.conn = nil
	return func(ctx context.Context) (*LazyTx, error) { return next.begin(ctx, true) }, nil
}

// CommitError is the error of a commit: every statement before it ran, and was rolled back.
type CommitError struct{ cause error }

func (e *CommitError) Error() string { return "commit: " + e.cause.Error() }

// Unwrap returns the error of the server or of the connection.
func (e *CommitError) Unwrap() error { return e.cause }

// errNotHere is returned if a caller commits a transaction that it did not begin.
var errNotHere = errors.New("only the caller that began the transaction may commit it")

// lazyTx is a transaction of BeginLazy on a connection of Open.
type lazyTx struct {
	conn    *conn
	ctx     context.Context
	cleanup []string
	begun   bool   // begin was sent
	ended   bool   // the message that commits was sent
	open    int    // queries whose rows are not closed
	free    func() // unbinds the previous statement from the transaction's context
}

// enter returns the statement to send, and a context that ends with the transaction's, except for
// the message that commits. simple: other statements may go in the same message.
func (t *lazyTx) enter(ctx context.Context, query string, simple bool) (context.Context, string, error) {
	if err := t.refuse(); err != nil || t == nil {
		return ctx, query, err
	}
	ends, commits := ctx.Value(last).(bool)
	commits = commits && simple
	if !commits && ctx.Value(free) == nil {
		ctx = t.bind(ctx)
	}
	begun := t.begun
	t.begun = true // or perhaps: a rollback does no harm
	switch {
	case begun:
	case simple:
		query = "begin read write;\n" + query
	default:
		_, err := t.conn.Conn.ExecContext(ctx, "begin read write", nil)
		if err = t.conn.noteBegin(false, err); err != nil {
			return ctx, query, err
		}
	}
	if commits && ends {
		query += "commit"
	}
	t.ended = t.ended || commits
	return ctx, query, nil
}

// bind returns a context for a statement that ends with the transaction's, too. It unbinds the
// previous statement, which is over: a check may run any number of them.
func (t *lazyTx) bind(ctx context.Context) context.Context {
	if t.free != nil {
		t.free()
		t.free = nil
	}
	if ctx == t.ctx {
		return ctx
	}
	bound, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.ctx, cancel)
	t.free = func() { stop(); cancel() }
	return bound
}

// errOpen is returned for a statement while the rows of another are open. If that one had
// parameters, the driver would send this one and take the other's answer as its own.
var errOpen = errors.New("a query has rows that were neither read to their end nor closed")

// refuse returns an error if a statement must not be sent.
func (t *lazyTx) refuse() error {
	switch {
	case t == nil:
		return nil
	case t.ended: // the statement would run outside a transaction, or in the next one
		return sql.ErrTxDone
	case t.open > 0:
		return errOpen
	}
	return nil
}

// watch counts the rows of a query as open rows of the transaction.
func (t *lazyTx) watch(base driver.Rows) driver.Rows {
	r, ok := base.(pqconn.Rows)
	if t == nil || !ok {
		return base
	}
	t.open++
	return &rows{Rows: r, tx: t}
}

// rows are the rows of a query in a transaction.
type rows struct {
	pqconn.Rows
	tx     *lazyTx
	closed bool
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	return r.tx.conn.note(err) // of one statement among several
}

func (r *rows) Close() error {
	if !r.closed {
		r.closed = true
		r.tx.open--
	}
	return r.Rows.Close()
}

// stmt is a statement that was prepared in a transaction.
type stmt struct {
	pqconn.Stmt
	tx *lazyTx
}

func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.tx.refuse(); err != nil {
		return nil, err
	}
	rows, err := s.Stmt.QueryContext(s.tx.bind(ctx), args)
	return s.tx.watch(rows), err
}

func (s stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.tx.refuse(); err != nil {
		return nil, err
	}
	return s.Stmt.ExecContext(s.tx.bind(ctx), args)
}

// Commit is called when the message that commits has succeeded.
func (t *lazyTx) Commit() error {
	t.conn.tx = nil
	if t.ended || !t.begun {
		return nil
	}
	return errors.Join(errNotHere, t.rollback())
}

func (t *lazyTx) Rollback() error {
	t.conn.tx = nil
	if !t.begun {
		return nil
	}
	return t.rollback()
}

// rollback does no harm if the transaction has ended. If it fails, such as in the middle of a copy,
// the transaction may go on until the connection is closed.
func (t *lazyTx) rollback() error {
	text := strings.Join(append([]string{"rollback"}, t.cleanup...), "; ")
	_, err := t.conn.Conn.ExecContext(context.WithoutCancel(t.ctx), text, nil)
	t.conn.broken = t.conn.broken || err != nil
	return err
}
