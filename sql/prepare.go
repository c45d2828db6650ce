package sql

import (
	"context"
	"sync/atomic"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// maxPrepared bounds what a connection keeps prepared: an application may make a new text for every call.
const maxPrepared = 250

// preparing says whether the connections of a pool keep statements prepared.
type preparing struct {
	wanted bool
	gone   atomic.Bool // what was prepared was not there any more: from now on none does
}

// prepared is what a connection keeps prepared. Nil: none is kept.
type prepared struct {
	*preparing
	stmts map[string]pqconn.Stmt // statements with parameters, from their first use on
}

func newPrepared(p *preparing) prepared {
	if !p.wanted {
		return prepared{preparing: p}
	}
	return prepared{p, map[string]pqconn.Stmt{}}
}

// IsStale tells whether an error is of a statement that was prepared: the session has it no more, or what it reads has other
// columns now. Its connection is not used again, so that it may be repeated.
func IsStale(err error) bool {
	if HasState(err, pqerror.FeatureNotSupported) {
		return routine(err) == "RevalidateCachedQuery"
	}
	return HasState(err, pqerror.InvalidSQLStatementName, pqerror.DuplicatePstatement)
}

// note takes note of an error that ends the use of the connection. Where its statements are gone, somebody deallocates them, or
// there is a pooler.
func (c *conn) note(err error) {
	if err == nil || !IsStale(err) {
		return
	}
	c.spoilt = true
	if !HasState(err, pqerror.FeatureNotSupported) {
		c.prepared.gone.Store(true)
	}
}

// keep returns a statement that is prepared; nil for one that is to go as it is.
func (c *conn) keep(ctx context.Context, query string, args int) (pqconn.Stmt, error) {
	p := &c.prepared
	if s, ok := p.stmts[query]; ok {
		return s, nil
	}
	if p.stmts == nil || args == 0 || len(p.stmts) == maxPrepared || p.gone.Load() {
		return nil, nil
	}
	base, err := c.Conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p.stmts[query] = base.(pqconn.Stmt)
	return p.stmts[query], nil
}
