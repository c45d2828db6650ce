package testkit

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// session gives the clock of a kit to the sessions of its pool, as the setting that the triggers of
// rules read. A session is told when the pool lends it.
type session struct{ clock atomic.Pointer[Clock] }

// follow gives a clock to the sessions that the pool lends from now on.
func (s *session) follow(clock *Clock) { s.clock.Store(clock) }

// around wraps the connections of a connector.
func (s *session) around(base driver.Connector) driver.Connector { return clockConnector{base, s} }

type clockConnector struct {
	driver.Connector
	session *session
}

func (c clockConnector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &clockConn{Conn: base.(pqconn.Conn), session: c.session}
	if err := conn.tell(ctx); err != nil {
		_ = base.Close() // the first error says more
		return nil, err
	}
	return conn, nil
}

type clockConn struct {
	pqconn.Conn
	session *session
}

// ResetSession is called before the pool lends the connection again.
func (c *clockConn) ResetSession(ctx context.Context) error {
	if err := c.Conn.ResetSession(ctx); err != nil {
		return err
	}
	return c.tell(ctx)
}

// tell sets the clock of the session. It does so each time: a transaction that was rolled back may have reset all
// settings.
func (c *clockConn) tell(ctx context.Context) error {
	clock := c.session.clock.Load()
	if clock == nil {
		return nil
	}
	if _, err := c.ExecContext(ctx, fmt.Sprintf("set prescient_caller.clock = '%s'",
		clock.Now().Format(time.RFC3339Nano)), nil); err != nil {
		return driver.ErrBadConn // the pool opens another one
	}
	return nil
}
