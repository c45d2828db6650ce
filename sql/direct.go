package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/prescient-go/prescient/internal/pqconn"
)

// wireKey is where the context of a connector's Connect has the place of the connection that its dialer makes.
type wireKey struct{}

// isDirect tells whether the server itself holds the other end of the wire. What stands between, such as a pooler, has a
// connection of its own to the server, from another port and to another address.
func isDirect(ctx context.Context, wire net.Conn, conn pqconn.Conn) (bool, error) {
	switch wire := wire.(type) {
	case *net.TCPConn:
		local, remote := endOf(wire.LocalAddr()), endOf(wire.RemoteAddr())
		same, err := askFor[bool](ctx, conn, fmt.Sprintf(
			"select coalesce((inet_client_addr(), inet_client_port(), inet_server_addr(), inet_server_port()) = (%s, %s), false)", local, remote))
		return same, err
	case *net.UnixConn:
		pid, err := askFor[int64](ctx, conn, "select pg_backend_pid()")
		return err == nil && servedBy(wire, pid), err
	}
	return false, nil
}

// endOf is an end of a connection as SQL.
func endOf(a net.Addr) string {
	at := a.(*net.TCPAddr).AddrPort()
	return fmt.Sprintf("inet '%s', %d", at.Addr().Unmap().WithZone(""), at.Port())
}

// askFor returns the value that a query without parameters returns.
func askFor[T any](ctx context.Context, conn pqconn.Conn, query string) (value T, err error) {
	rows, err := conn.QueryContext(ctx, query, nil)
	if err != nil {
		return value, err
	}
	row := make([]driver.Value, 1)
	err = rows.Next(row)
	value, _ = row[0].(T)
	return value, errors.Join(err, rows.Close())
}
