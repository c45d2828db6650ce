package pg

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync/atomic"
	"syscall"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// NewConnector wraps a connector of lib/pq. Its connections support the transactions of [BeginLazy]
// and, with prepare, keep statements prepared. [Open] uses it.
func NewConnector(base driver.Connector, prepare bool) driver.Connector {
	which := prepareNone
	if prepare {
		which = prepareAll
	}
	return connector{base, &preparing{which: which}, nil, new(atomic.Bool)}
}

// errUnwanted is returned if no server of the URL matches target_session_attrs. During a failover,
// none matches until the standby is promoted.
var errUnwanted = errors.New("no server matches target_session_attrs")

// errSilent is returned if a host does not answer within connect_timeout.
var errSilent = errors.New("the server does not answer")

// OfConnecting returns the error of an attempt to connect. If the driver has dialed in vain until a deadline of its
// own, it says so, and wraps no error of a context: that of the caller goes on.
func OfConnecting(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %v", errSilent, err) //nolint:errorlint // see above
	}
	return err
}

// unwanted matches the driver's message about a server that answers but does not match.
var unwanted = regexp.MustCompile(`session is (not )?read-only|server is (not )?in hot standby mode`)

type connector struct {
	driver.Connector
	prepare *preparing
	limit   *ConnectionLimit // nil: no limit
	wrote   *atomic.Bool     // a transaction that may write has begun on a connection of the pool
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.limit.enter(ctx); err != nil {
		return nil, err
	}
	conn, err := c.connect(ctx)
	if err != nil {
		c.limit.leave()
		return nil, err
	}
	return conn, nil
}

func (c connector) connect(ctx context.Context) (driver.Conn, error) {
	attempt, end := context.WithCancel(ctx)
	defer end() // also closes connections that the driver gave up without closing, such as to a server without TLS
	is := &dialing{attempt: attempt}
	base, err := c.Connector.Connect(context.WithValue(ctx, connecting{}, is))
	if ctx.Err() != nil && (errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled)) {
		return nil, ctx.Err() // the driver's error would not name the cause
	}
	err = OfConnecting(ctx, err)
	if err != nil && unwanted.MatchString(err.Error()) {
		return nil, fmt.Errorf("%w: %w", errUnwanted, err)
	}
	if err != nil {
		return nil, err
	}
	return &conn{
		Conn:     base.(pqconn.Conn),
		prepared: prepared{preparing: c.prepare, stmts: map[string]pqconn.Stmt{}, since: c.prepare.changed.Load()},
		limit:    c.limit, wrote: c.wrote, pooled: &is.pooled, socket: is.socket, beginning: is.beginning,
	}, nil
}

// lazyDriver marks pools whose connections support BeginLazy.
type lazyDriver struct{ driver.Driver }

func (c connector) Driver() driver.Driver { return lazyDriver{c.Connector.Driver()} }

type conn struct {
	pqconn.Conn
	prepared prepared
	broken   bool             // the pool must not use it again
	tx       *lazyTx          // the current transaction; nil: none, or one that is not lazy
	limit    *ConnectionLimit // counts this connection; nil: none does
	wrote    *atomic.Bool
	lifts    *string         // what LiftedIfKnown is for its server; nil: not known yet
	pooled   *atomic.Bool    // PgBouncer has ended it because of its statement mode
	socket   syscall.RawConn // nil: the application dials itself

	beginning *beginning // nil: the application dials itself
	direct    *bool      // see isDirect; nil: not asked yet
}

// Close closes the connection. database/sql calls it once.
func (c *conn) Close() error {
	defer c.limit.leave()
	return c.Conn.Close()
}

// ResetSession is called before the pool hands the connection out again. If the server has ended the
// session meanwhile, as idle_session_timeout and a restart do, the pool closes the connection and takes
// another one.
func (c *conn) ResetSession(ctx context.Context) error {
	if hasInput(c.socket) {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// IsValid is called when the connection goes back to its pool.
func (c *conn) IsValid() bool { return !c.broken && !c.limit.wanted() && c.Conn.IsValid() }

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, ok := ctx.Value(lazy).(lazyTx)
	switch {
	case !ok && ctx.Value(ownKey{}) != nil:
		return c.beginOwn(ctx, opts)
	case !ok:
		tx, err := c.Conn.BeginTx(ctx, opts)
		return tx, c.noteBegin(opts.ReadOnly, err)
	}
	tx.conn = c
	c.tx = &tx
	return c.tx, nil
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	defer func() { err = c.noteStatement(query, err) }()
	ctx, query, s, err := c.ready(ctx, query, args)
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		rows, err = s.QueryContext(ctx, args)
	default:
		rows, err = c.Conn.QueryContext(ctx, query, args)
	}
	return c.tx.watch(rows), err
}

func (c *conn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (result driver.Result, err error) {
	defer func() { err = c.noteStatement(query, err) }()
	ctx, query, s, err := c.ready(ctx, query, args)
	switch {
	case err != nil:
		return nil, err
	case s != nil:
		return s.ExecContext(ctx, args)
	}
	return c.Conn.ExecContext(ctx, query, args)
}

// ready checks a statement before it is sent. Returns it prepared, or nil if it is sent as text.
func (c *conn) ready(
	ctx context.Context, query string, args []driver.NamedValue,
) (context.Context, string, pqconn.Stmt, error) {
	ctx, query, err := c.tx.enter(ctx, query, len(args) == 0)
	if err != nil {
		return ctx, query, nil, err
	}
	s, err := c.keep(ctx, query, len(args))
	return ctx, query, s, err
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	ctx, query, err := c.tx.enter(ctx, query, false)
	if err != nil {
		return nil, err
	}
	base, err := c.Conn.PrepareContext(ctx, query)
	if s, ok := base.(pqconn.Stmt); ok && c.tx != nil {
		return stmt{s, c.tx}, err
	}
	return base, err
}
