package pg

import (
	"context"
	"sync/atomic"

	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// maxPrepared bounds the statements that a connection keeps prepared: an application may make a new
// text for every call.
const maxPrepared = 250

// The statements with parameters that a connection keeps prepared.
const (
	prepareOften = iota // those sent Often, if the connection leads to the server itself
	prepareAll
	prepareNone
)

// preparing says which statements the connections of a pool keep prepared.
type preparing struct {
	which int
	gone  atomic.Bool // a prepared statement was lost: no connection of the pool prepares or uses one any more
	// changed counts how often the columns of a prepared statement had changed. Each other connection then prepares its
	// statements again, so that no more transactions fail.
	changed atomic.Int64
}

// prepared holds the statements that a connection keeps prepared.
type prepared struct {
	*preparing
	stmts map[string]pqconn.Stmt // from their first use on
	since int64                  // what changed was at that time
}

// dropChanged ends what was prepared before a change of columns.
func (p *prepared) dropChanged() error {
	now := p.changed.Load()
	if p.since == now {
		return nil
	}
	for query, s := range p.stmts {
		if err := s.Close(); err != nil {
			return err
		}
		delete(p.stmts, query)
	}
	p.since = now
	return nil
}

// IsStale tells whether err comes from a stale prepared statement: the session lost it, or the
// columns that it reads have changed. Its connection is not used again, so the caller may repeat
// it.
func IsStale(err error) bool {
	if HasState(err, pqerror.FeatureNotSupported) {
		return Routine(err) == "RevalidateCachedQuery"
	}
	return HasState(err, pqerror.InvalidSQLStatementName, pqerror.DuplicatePstatement)
}

// keep returns the prepared statement for a query; nil if the query is sent as text.
func (c *conn) keep(ctx context.Context, query string, args int) (pqconn.Stmt, error) {
	p := &c.prepared
	if args == 0 || p.which == prepareNone || p.gone.Load() {
		return nil, nil
	}
	if err := p.dropChanged(); err != nil {
		return nil, err
	}
	if s, ok := p.stmts[query]; ok {
		return s, nil
	}
	if len(p.stmts) == maxPrepared {
		return nil, nil
	}
	if p.which == prepareOften {
		if !isOften(ctx) {
			return nil, nil
		}
		if direct, err := c.isDirect(ctx); !direct {
			return nil, err
		}
	}
	base, err := c.Conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p.stmts[query] = base.(pqconn.Stmt)
	return p.stmts[query], nil
}
