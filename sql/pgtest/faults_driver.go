package pgtest

import (
	"context"
	"database/sql/driver"
	"regexp"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// faultyConnector counts the round trips of the driver's connections, and makes the faults happen.
type faultyConnector struct {
	driver.Connector
	faults *Faults
}

func (c faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	fault := c.faults.next("connect", false)
	switch fault.Kind {
	case "":
	case CrashBefore, CrashAfter:
		c.faults.Kill()
	case Outage:
		c.faults.cutAll(fault)
	case SomebodyFirst:
		c.faults.letFirst(fault)
	case StopBefore, StopAfter:
		c.faults.stop(fault.Pause)
	case LateReply:
		time.Sleep(fault.Pause)
	default:
		if fault.Reset {
			return nil, refused
		}
		return nil, &pq.Error{
			Severity: pqerror.SeverityFatal, Code: pqerror.TooManyConnections, Message: "sorry, too many clients already",
		}
	}
	var w *wire
	base, err := c.Connector.Connect(context.WithValue(ctx, wireKey{}, &w))
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: base.(pqconn.Conn), wire: w}, nil
}

type faultyConn struct {
	pqconn.Conn
	wire *wire
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.before("begin", 1)
	defer c.after()
	tx, err := c.Conn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyTx{tx, c}, nil
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	query = c.before(query, tripsOf(args))
	defer c.after()
	return c.Conn.QueryContext(ctx, query, args)
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query = c.before(query, tripsOf(args))
	defer c.after()
	return c.Conn.ExecContext(ctx, query, args)
}

// tripsOf returns how often the driver waits for the server: it first parses a statement with
// parameters.
func tripsOf(args []driver.NamedValue) int {
	if len(args) > 0 {
		return 2
	}
	return 1
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.before("prepare "+query, 1)
	defer c.after()
	base, err := c.Conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if s, ok := base.(pqconn.Stmt); ok {
		return &faultyStmt{s, c, query}, nil
	}
	return base, nil // of a COPY
}

func (c *faultyConn) Ping(ctx context.Context) error {
	c.before("ping", 1)
	defer c.after()
	return c.Conn.Ping(ctx)
}

type faultyStmt struct {
	pqconn.Stmt
	conn  *faultyConn
	query string
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.conn.before(s.query, 1)
	defer s.conn.after()
	return s.Stmt.QueryContext(ctx, args)
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.conn.before(s.query, 1)
	defer s.conn.after()
	return s.Stmt.ExecContext(ctx, args)
}

type faultyTx struct {
	driver.Tx
	conn *faultyConn
}

func (t *faultyTx) Commit() error {
	instead := t.conn.before("commit", 1)
	defer t.conn.after()
	if instead != "commit" {
		return t.Tx.Rollback()
	}
	return t.Tx.Commit()
}

func (t *faultyTx) Rollback() error {
	t.conn.before("rollback", 1)
	defer t.conn.after()
	return t.Tx.Rollback()
}

// commits matches the end of a message that commits, before the beginning of another transaction.
var commits = regexp.MustCompile(`(?i)\bcommit([\s;]*$|;\s*begin\b)`)

// before counts a round trip with the given number of replies, and makes its fault happen or
// prepares it. It returns what to send.
func (c *faultyConn) before(query string, replies int) string {
	if !c.IsValid() {
		return query // the driver does not send it
	}
	faults, w := c.wire.faults, c.wire
	fault := faults.next(textOf(query), commits.MatchString(query))
	switch fault.Kind {
	case CrashBefore:
		faults.Kill()
	case CrashAfter:
		w.expect(replies, func([]byte) []byte { faults.Kill(); return nil })
	case Cut:
		w.cut(fault.Reset)
	case Outage:
		faults.cutAll(fault)
	case LostReply:
		w.expect(replies, func([]byte) []byte { w.cut(fault.Reset); return nil })
	case FailedCommit:
		query = commits.ReplaceAllString(query, "rollback$1")
		fallthrough
	case TornReply:
		w.expect(replies, func(reply []byte) []byte { w.cut(fault.Reset); return tear(reply) })
	case LateReply:
		w.expect(replies, func(reply []byte) []byte { time.Sleep(fault.Pause); return reply })
	case StopBefore:
		faults.stop(fault.Pause)
	case StopAfter:
		w.expect(replies, func(reply []byte) []byte { faults.stop(fault.Pause); return reply })
	case SomebodyFirst:
		faults.letFirst(fault)
	}
	return query
}

// after removes a fault whose reply never came.
func (c *faultyConn) after() { c.wire.then = nil }
