package pg

import (
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/lib/pq/pqerror"
)

// note marks the connection as broken if err says so, and returns err. If its prepared statements are
// gone, the application deallocates them or a pooler is in between. If the columns of one have changed, the
// statements of the other connections may be stale, too. If its server does not write any more, or shuts
// down, the pool has to dial again: another server may be the primary now.
func (c *conn) note(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrBadConn) && c.pooled.Load():
		c.broken = true
		return ErrStatementPooling
	case IsStale(err):
		c.broken = true
		if HasState(err, pqerror.FeatureNotSupported) {
			c.prepared.changed.Add(1)
		} else {
			c.prepared.gone.Store(true)
		}
	case HasState(err, pqerror.ReadOnlySQLTransaction, pqerror.AdminShutdown, pqerror.CrashShutdown,
		pqerror.CannotConnectNow):
		c.broken = true
	}
	return err
}

// noteBegin is note for the beginning of a transaction. The first transaction of a pool that may write
// shows that the pool leads to a primary.
func (c *conn) noteBegin(readOnly bool, err error) error {
	switch {
	case err == nil && !readOnly && !c.wrote.Load():
		c.wrote.Store(true)
	case HasState(err, pqerror.FeatureNotSupported) && Routine(err) != "RevalidateCachedQuery":
		c.broken = true
		if c.wrote.Load() {
			return &demotedError{err}
		}
	}
	return c.note(err)
}

// noteStatement is note for a statement, which may begin a transaction.
func (c *conn) noteStatement(query string, err error) error {
	if !strings.HasPrefix(query, "begin ") {
		return c.note(err)
	}
	first, _, _ := strings.Cut(query, "\n")
	return c.noteBegin(strings.Contains(first, "read only"), err)
}

// demotedError is the error of a transaction that could not begin because its server is a standby,
// although the pool has written before. The pool may find the primary soon.
type demotedError struct{ cause error }

// Error returns the error of the server.
func (e *demotedError) Error() string { return e.cause.Error() }

// Unwrap returns the error of the server.
func (e *demotedError) Unwrap() error { return e.cause }
