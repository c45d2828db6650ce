package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"regexp"
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
)

// LazyTx is a transaction that is ended by [Message.CommitTx], or by End. On a pool of [Open] it costs no round trips of
// its own: begin goes out with the first statement and commit with the last.
type LazyTx struct {
	*sqlx.Tx
	conn   *sqlx.Conn  // to be given back; nil: the transaction does it
	undo   []string    // goes with its rollback
	keep   func() bool // it is not rolled back any more when its context ends; false: it was
	theirs *sqlx.Conn  // the connection, of a pool of the driver's; nil: there is nothing to undo, or it is conn
	done   bool        // it was committed, there
}

// BeginLazy begins a transaction that is rolled back when ctx ends. A connection that has broken meanwhile is found out
// by the first statement. Call End in any case.
//
// undo is done with every rollback, outside of the transaction: whoever has ended that himself may have left more behind. On a pool of
// the driver's End does it, by itself.
func BeginLazy(ctx context.Context, db *sqlx.DB, undo ...string) (*LazyTx, error) {
	_, ours := db.Driver().(lazyDriver)
	if !ours && len(undo) > 0 {
		return beginTheirs(ctx, db, undo)
	}
	if !ours {
		tx, err := db.BeginTxx(ctx, nil)
		return &LazyTx{Tx: tx, keep: func() bool { return true }}, explainBegin(err)
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	return (&LazyTx{conn: conn, undo: undo}).begin(ctx, false)
}

// begin begins a transaction that is like t, and gives the connection back. begun: the server has begun it.
func (t *LazyTx) begin(ctx context.Context, begun bool) (*LazyTx, error) {
	conn := t.conn
	// Not under ctx: database/sql would drop the answer to a commit that arrives after it ended.
	tx, err := conn.BeginTxx(context.WithValue(context.WithoutCancel(ctx), lazy, lazyTx{ctx: ctx, begun: begun, undo: t.undo}), nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	keep := context.AfterFunc(ctx, func() { _ = errors.Join(tx.Rollback(), conn.Close()) })
	return &LazyTx{Tx: tx, conn: conn, undo: t.undo, keep: keep}, nil
}

// Chains tells whether another transaction can begin with the message that commits this one.
func (t *LazyTx) Chains() bool { return t.conn != nil }

// End rolls back what is not committed, and gives the connection back.
func (t *LazyTx) End() {
	t.keep()
	_ = t.Rollback()
	if t.conn != nil {
		_ = t.conn.Close()
	}
	if t.theirs != nil {
		t.undoTheirs()
	}
}

// beginTheirs is BeginLazy on a pool of the driver's, for a transaction with something to undo.
func beginTheirs(ctx context.Context, db *sqlx.DB, undo []string) (*LazyTx, error) {
	conn, err := db.Connx(ctx)
	if err != nil {
		return nil, explainBegin(err)
	}
	tx, err := conn.BeginTxx(ctx, nil)
	if err != nil {
		return nil, errors.Join(explainBegin(err), conn.Close())
	}
	keep := context.AfterFunc(ctx, func() { _ = errors.Join(tx.Rollback(), giveUp(conn), conn.Close()) })
	return &LazyTx{Tx: tx, theirs: conn, undo: undo, keep: keep}, nil
}

// undoTimeout is how long a pool of the driver's may take to undo.
const undoTimeout = 5 * time.Second

// undoTheirs does undo, unless the transaction was committed, and gives the connection back. One that cannot is given up.
func (t *LazyTx) undoTheirs() {
	defer func() { _ = t.theirs.Close() }()
	if t.done {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	if _, err := t.theirs.ExecContext(ctx, strings.Join(t.undo, "; ")); err != nil {
		_ = giveUp(t.theirs)
	}
}

// giveUp has a connection closed.
func giveUp(conn *sqlx.Conn) error { return conn.Raw(func(any) error { return driver.ErrBadConn }) }

// CommitTx sends the message and commits its transaction. An error that is none of the server's leaves open whether it was
// committed, but for [sql.ErrTxDone]: it has ended before, and that of [Message.Add]: it goes on.
func (m *Message) CommitTx(ctx context.Context, tx *LazyTx) error {
	return m.commitTx(ctx, tx, len(m.scans), true)
}

// commitTx commits after so many answers; ends: with nothing after it.
func (m *Message) commitTx(ctx context.Context, tx *LazyTx, after int, ends bool) error {
	if m.err != nil {
		return m.err
	}
	if !tx.keep() {
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

// CommitAndBegin is CommitTx for a transaction that Chains, and in the same message begins another one on its connection, with the message
// first. Call begun once: it returns that transaction, which is rolled back when its context ends. Any error leaves open
// whether the first one was committed, but for [sql.ErrTxDone] and that of [Message.Add], of either message.
func (m *Message) CommitAndBegin(ctx context.Context, tx *LazyTx, first *Message) (begun func(ctx context.Context) (*LazyTx, error), err error) {
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
	tx.conn = nil
	return func(ctx context.Context) (*LazyTx, error) { return next.begin(ctx, true) }, nil
}

// CommitError is the error of a commit: every statement before it was done, and is undone now.
type CommitError struct{ cause error }

func (e *CommitError) Error() string { return "commit: " + e.cause.Error() }

// Unwrap returns the error of the server or of the connection.
func (e *CommitError) Unwrap() error { return e.cause }

// errNotHere is the answer to who commits a transaction that is not his.
var errNotHere = errors.New("the transaction is committed by whoever began it")

// lazyTx is a transaction of BeginLazy on a connection of Open.
type lazyTx struct {
	conn  *conn
	ctx   context.Context
	undo  []string
	begun bool   // begin was sent
	ended bool   // the message that commits was sent
	spent bool   // nothing is sent any more: a statement was to end it, and what comes after that would be carried out by itself
	open  int    // queries whose rows are not closed
	free  func() // unbinds the statement before from the transaction's context
}

// enter returns the statement as it is to be sent, and how long it may take: no longer than the transaction, but for the
// message that commits. simple: others may go with it.
func (t *lazyTx) enter(ctx context.Context, query string, simple bool) (context.Context, string, error) {
	if err := t.refuse(); err != nil || t == nil {
		return ctx, query, err
	}
	ends, commits := ctx.Value(last).(bool)
	commits = commits && simple
	if !commits {
		if end := endTx.FindStringSubmatch(query); end != nil && end[1] == "" {
			t.spent = true
			return ctx, query, endError{}
		}
		ctx = t.bind(ctx)
	}
	begun := t.begun
	t.begun = true // or perhaps: to roll back does no harm
	switch {
	case begun:
	case simple:
		query = "begin read write;\n" + query
	default:
		if _, err := t.conn.Conn.ExecContext(ctx, "begin read write", nil); err != nil {
			return ctx, query, err
		}
	}
	if commits && ends {
		query += "commit"
	}
	t.ended = t.ended || commits
	return ctx, query, nil
}

// bind returns a context for a statement that ends with the transaction's, too. That of the one before, which is over, is let go of: a
// check may have any number of them.
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

// errOpen is the answer to a statement while the rows of another are read. The driver would send it, where that one had parameters, and
// take the one's answer for the other's.
var errOpen = errors.New("a query has rows that were neither read to their end nor closed")

// endTx finds texts that begin with an end of the transaction, but for comments; not of a part of it, which is the last group. Where
// one has it further on, the fence finds out.
var endTx = regexp.MustCompile(`(?i)^(?:\s|;|--[^\n]*\n|(?s:/\*.*?\*/))*(?:commit|end|abort|rollback|prepare\s+transaction)\b(?:\s+(?:work|transaction)\b)?(\s+to\b)?`)

// endError is the answer to one, and like [sql.ErrTxDone]: nothing is sent any more.
type endError struct{}

func (endError) Error() string {
	return "a statement must not end the transaction: whoever began it does, when the function returns"
}

func (endError) Is(target error) bool { return target == sql.ErrTxDone }

// refuse returns why a statement must not be sent.
func (t *lazyTx) refuse() error {
	switch {
	case t == nil:
		return nil
	case t.ended || t.spent: // it would be carried out by itself, or in the transaction after this one
		return sql.ErrTxDone
	case t.open > 0:
		return errOpen
	}
	return nil
}

// watch returns the rows of a query as those of the transaction.
func (t *lazyTx) watch(base driver.Rows) driver.Rows {
	r, ok := base.(pqconn.Rows)
	if t == nil || !ok {
		return base
	}
	t.open++
	return &rows{Rows: r, tx: t}
}

// rows are those of a query in a transaction.
type rows struct {
	pqconn.Rows
	tx     *lazyTx
	closed bool
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil {
		r.tx.conn.note(err) // of one statement of many
	}
	return err
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

// rollback does no harm where the transaction has ended. Where it fails, such as in the middle of a copy, the transaction may go on,
// and ends with the connection.
func (t *lazyTx) rollback() error {
	text := strings.Join(append([]string{"rollback"}, t.undo...), "; ")
	_, err := t.conn.Conn.ExecContext(context.WithoutCancel(t.ctx), text, nil)
	t.conn.spoilt = t.conn.spoilt || err != nil
	return err
}
