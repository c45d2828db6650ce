package sql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"
)

// lazyKey marks contexts for the connections of a pool of Open.
type lazyKey string

const (
	lazy lazyKey = "the transaction begins with its first statement; the value is its context"
	last lazyKey = "the transaction commits with this message"
)

// LazyTx is a transaction that is ended by [Message.CommitTx], or by End. On a pool of [Open] it costs no round trips of
// its own: begin goes out with the first statement and commit with the last.
type LazyTx struct {
	*sqlx.Tx
	conn *sqlx.Conn  // to be given back; nil: the transaction does it
	keep func() bool // it is not rolled back any more when its context ends; false: it was
}

// BeginLazy begins a transaction that is rolled back when ctx ends. A connection that has broken meanwhile is found out
// by the first statement. Call End in any case.
func BeginLazy(ctx context.Context, db *sqlx.DB) (*LazyTx, error) {
	if _, ours := db.Driver().(lazyDriver); !ours {
		tx, err := db.BeginTxx(ctx, nil)
		return &LazyTx{tx, nil, func() bool { return true }}, err
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	// Not under ctx: database/sql would drop the answer to a commit that arrives after it ended.
	tx, err := conn.BeginTxx(context.WithValue(context.WithoutCancel(ctx), lazy, ctx), nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &LazyTx{tx, conn, context.AfterFunc(ctx, func() { _ = errors.Join(tx.Rollback(), conn.Close()) })}, nil
}

// End rolls back what is not committed, and gives the connection back.
func (t *LazyTx) End() {
	t.keep()
	_ = t.Rollback()
	if t.conn != nil {
		_ = t.conn.Close()
	}
}

// CommitTx sends the message and commits its transaction. An error that is none of the server's leaves open whether it was
// committed, but for [sql.ErrTxDone]: it has ended before.
func (m *Message) CommitTx(ctx context.Context, tx *LazyTx) error {
	if !tx.keep() {
		return sql.ErrTxDone
	}
	answered, err := m.send(context.WithValue(ctx, last, true), tx, m.text.String())
	if err == nil {
		answered, err = true, tx.Commit()
	}
	if answered && err != nil {
		return &CommitError{err}
	}
	return err
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
	begun bool // begin was sent
	ended bool // the message that commits was sent
}

// enter returns the statement as it is to be sent, and how long it may take: no longer than the transaction, but for the
// message that commits. simple: others may go with it.
func (t *lazyTx) enter(ctx context.Context, query string, simple bool) (context.Context, string, error) {
	if t == nil {
		return ctx, query, nil
	}
	commits := simple && ctx.Value(last) != nil
	if ctx != t.ctx && !commits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		context.AfterFunc(t.ctx, cancel)
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
	if commits {
		query += "commit"
		t.ended = true
	}
	return ctx, query, nil
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

// rollback does no harm where the transaction has ended.
func (t *lazyTx) rollback() error {
	_, err := t.conn.Conn.ExecContext(context.WithoutCancel(t.ctx), "rollback", nil)
	return err
}
