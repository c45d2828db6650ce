package testkit

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pqconn"
	pgsql "github.com/prescient-go/prescient/sql"
)

// session gives the clock of a kit to the sessions of its pool, as the setting that SQL functions and the triggers of
// rules read. A session is told when the pool lends it.
type session struct {
	clock   atomic.Pointer[Clock]
	virtual bool // there is a now() of the kit

	mu   sync.Mutex
	told time.Time // what now() tells
}

// follow gives a clock to the sessions that the pool lends from now on. virtual: makeNow has made a now().
func (s *session) follow(clock *Clock, virtual bool) {
	s.virtual = virtual
	s.clock.Store(clock)
}

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
	now := clock.Now()
	set := fmt.Sprintf("set prescient_caller.clock = '%s'", now.Format(time.RFC3339Nano))
	if _, err := c.ExecContext(ctx, set, nil); err != nil {
		return driver.ErrBadConn // the pool opens another one
	}
	if c.session.virtual {
		return c.tellNow(ctx, now)
	}
	return nil
}

// tellNow sets the instant of now(), if it has not told that already.
func (c *clockConn) tellNow(ctx context.Context, now time.Time) error {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.session.told.Equal(now) {
		return nil
	}
	const set = "update prescient_testkit.clock set at = '%s', told_at = clock_timestamp()"
	if _, err := c.ExecContext(ctx, fmt.Sprintf(set, now.Format(time.RFC3339Nano)), nil); err != nil {
		return driver.ErrBadConn
	}
	c.session.told = now
	return nil
}

// path is the search_path of the kit's pool: the application makes its tables in public, as usual, and now() is found
// before that of pg_catalog. A parameter of the connection stays when a run resets all settings after a check.
const path = `"$user", public, prescient_testkit, pg_catalog`

// makeNow makes SQL of the pool tell the clock of the kit: by now(), and by the instants at which rows are enqueued and
// end. These go on with the time of the server, because an action leaves out what is enqueued later. Leases keep the
// time of the server. now() reads a table, because a run resets the setting before it records.
func makeNow(ctx context.Context, db *sqlx.DB, schema pgsql.Schema, now time.Time) error {
	const script = `
create schema prescient_testkit;
create table prescient_testkit.clock as select '%[2]s'::timestamptz as at, clock_timestamp() as told_at;
create function prescient_testkit.now() returns timestamptz language sql stable as
	'select at from prescient_testkit.clock';
create function prescient_testkit.later() returns timestamptz language sql as
	'select at + (clock_timestamp() - told_at) from prescient_testkit.clock';
grant usage on schema prescient_testkit to public;
grant select on prescient_testkit.clock to public;
alter table %[1]s.future_job alter column enqueued_at set default prescient_testkit.later();
alter table %[1]s.future_job_history alter column finished_at set default prescient_testkit.later()`
	return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf(script, pq.QuoteIdentifier(string(schema)), now.Format(time.RFC3339Nano)))
		return err
	})
}
