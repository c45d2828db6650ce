package pg

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// ReplyTimeout is how long a connection of Open waits for the next bytes of an answer. A context
// alone does not end the wait on a dead network: the driver would stay in the read for minutes.
const ReplyTimeout = 2 * time.Minute

// connectTimeout applies if the URL sets none.
const connectTimeout = 10 * time.Second

// ErrURL is returned for a database URL that cannot be parsed. It says nothing about the URL, which
// may hold a password.
var ErrURL = errors.New("database URL cannot be parsed: write postgres://user@host:5432/database?sslmode=verify-full " +
	"(percent-encode special characters), or host=... dbname=... pairs")

// MinMajor is the oldest major version of PostgreSQL that is supported.
const MinMajor = 15

// unusable returns the error for a URL that the driver cannot parse, or for an environment variable
// that it refuses, such as PGGSSENCMODE.
func unusable() error {
	if _, err := pq.NewConfig(""); err != nil {
		return fmt.Errorf("one of the PG... variables of the environment cannot be used: correct or unset it: %w", err)
	}
	return ErrURL
}

// Options are how Open connects. The functions below set them.
type Options struct {
	cfg     pq.Config
	dialer  dialer
	prepare preparing
	limit   *ConnectionLimit
	name    string
	around  func(driver.Connector) driver.Connector
}

// Patient removes ReplyTimeout, for statements that may run long, such as migrations and a change
// of the width.
func Patient() func(o *Options) { return func(o *Options) { o.dialer.reply = 0 } }

// Prepared lets every connection prepare each statement with parameters once and keep it, because
// planning is most of the work of a small statement. The URL must lead to the server itself, not to
// a pooler in transaction mode. Parameter types and tables are fixed when a statement is prepared:
// see docs/settings.md. Without it, a connection keeps the statements that are sent [Often], if it leads to the server
// itself.
func Prepared() func(o *Options) { return func(o *Options) { o.prepare.which = prepareAll } }

// Unprepared lets no connection keep a prepared statement.
func Unprepared() func(o *Options) { return func(o *Options) { o.prepare.which = prepareNone } }

// Name sets the application_name of the sessions if the URL sets none. Defaults to "prescient".
func Name(name string) func(o *Options) {
	return func(o *Options) { o.name = name }
}

// Guard calls check before each connection, and connects only if it returns nil.
func Guard(check func() error) func(o *Options) { return func(o *Options) { o.dialer.guard = check } }

// Around wraps the driver's connector, whose connections must stay those of lib/pq or wrap them.
func Around(wrap func(driver.Connector) driver.Connector) func(o *Options) {
	return func(o *Options) { o.around = wrap }
}

// Param sets a run-time parameter of PostgreSQL for every session, such as synchronous_commit.
func Param(name, value string) func(o *Options) {
	return func(o *Options) {
		if o.cfg.Runtime == nil {
			o.cfg.Runtime = map[string]string{}
		}
		o.cfg.Runtime[name] = value
	}
}

// maxIdleTime is how long the pool keeps an idle connection.
const maxIdleTime = time.Minute

// Open connects as [github.com/prescient-go/prescient/sql.Open] says.
func Open(ctx context.Context, url string, opts ...func(o *Options)) (*sqlx.DB, error) {
	cfg, err := pq.NewConfig(withPorts(url))
	if err != nil {
		return nil, unusable()
	}
	if cfg.SSLMode == "" {
		cfg.SSLMode = pq.SSLModePrefer
	}
	if cfg.ConnectTimeout <= 0 { // libpq also takes a value below zero as none
		cfg.ConnectTimeout = connectTimeout
	}
	o := Options{cfg: cfg, dialer: dialer{reply: ReplyTimeout}, name: "prescient", around: unwrapped}
	for _, opt := range opts {
		opt(&o)
	}
	o.cfg.ApplicationName = cmp.Or(o.cfg.ApplicationName, o.name)
	base, err := pq.NewConnectorConfig(o.cfg)
	if err != nil {
		return nil, ErrURL
	}
	base.Dialer(o.dialer)
	db := sqlx.NewDb(sql.OpenDB(connector{o.around(base), &o.prepare, o.limit, new(atomic.Bool)}), "postgres")
	o.limit.add(db.DB)
	db.SetMaxIdleConns(math.MaxInt32) // keeps as many as are open
	db.SetConnMaxIdleTime(maxIdleTime)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the database: %w", err), db.Close())
	}
	return db, nil
}

func unwrapped(base driver.Connector) driver.Connector { return base }

// dialer gives every connection a deadline for each read and write.
type dialer struct {
	reply time.Duration
	guard func() error // see Guard; nil: no check
}

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.guard != nil {
		if err := d.guard(); err != nil {
			return nil, err
		}
	}
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}
	dialed, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := dialed
	is, ok := ctx.Value(connecting{}).(*dialing)
	if ok {
		is.socket = socketOf(dialed)
		is.beginning = &beginning{ends: dialed}
		conn = &refusalConn{dialed, &is.pooled, is.beginning}
		conn = &attemptConn{conn, context.AfterFunc(is.attempt, func() { _ = dialed.Close() })}
	}
	if d.reply > 0 {
		conn = &deadlineConn{Conn: conn, reply: d.reply}
	}
	return conn, nil
}

// connecting is the context key of a dialing. The driver dials with another context, which ends after
// dialing, and checks no context while the server authenticates.
type connecting struct{}

// dialing is what a connection shares with the one of the network.
type dialing struct {
	attempt context.Context //nolint:containedctx // ends with the attempt to connect
	socket  syscall.RawConn // the last one that was dialed
	pooled  atomic.Bool     // see refusalConn

	beginning *beginning // of the last one that was dialed; nil: the application dials itself
}

// refusalConn notes how the session begins, and that PgBouncer ends the connection because it is in statement mode. The
// driver returns driver.ErrBadConn for every fatal error.
type refusalConn struct {
	net.Conn
	pooled    *atomic.Bool
	beginning *beginning
}

func (c *refusalConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.beginning.stopped {
		c.beginning.read(p[:n])
	}
	if n > 0 && p[0] == 'E' && bytes.Contains(p[:n], []byte(statementPooling)) {
		c.pooled.Store(true)
	}
	return n, err
}

// attemptConn is closed when the attempt ends before the server has let it in.
type attemptConn struct {
	net.Conn
	letIn func() bool
}

// SetDeadline is called by the driver before its first message to a server. The driver calls it
// with the zero time once the server has accepted the session.
func (c *attemptConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.letIn()
	}
	return c.Conn.SetDeadline(t)
}

type deadlineConn struct {
	net.Conn
	reply time.Duration
	until time.Time // the driver's deadline while it connects; zero: none
}

// SetDeadline sets a deadline beside that of each read and write; see attemptConn.
func (c *deadlineConn) SetDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetDeadline(t)
}

// deadline returns the deadline of the next read or write.
func (c *deadlineConn) deadline() time.Time {
	at := elapsed.Now().Add(c.reply)
	if !c.until.IsZero() && c.until.Before(at) {
		return c.until
	}
	return at
}

func (c *deadlineConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Timeout() && c.until.IsZero() {
		explained := *failed // the driver knows a broken connection by this type
		explained.Err = &silenceError{failed.Err, c.reply}
		err = &explained
	}
	return n, err
}

// silenceError is the error of a server that has not answered for long. Like the error that it
// wraps, it is a timeout.
type silenceError struct {
	error
	lasted time.Duration
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("%v: the server has not answered for %s. The statement may wait for a lock of another session. "+
		"This names such sessions: select pid, pg_blocking_pids(pid) from pg_stat_activity where wait_event_type = 'Lock'. "+
		"If none waits, the statement is slow, or the network is dead", e.error, e.lasted)
}

func (e *silenceError) Unwrap() error { return e.error }

// Timeout reports true: the time for the answer was over.
func (*silenceError) Timeout() bool { return true }

// Temporary reports true, like the error that it wraps. TLS takes any other error for the end of the connection.
func (*silenceError) Temporary() bool { return true }

func (c *deadlineConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(c.deadline()); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
