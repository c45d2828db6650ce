package pg

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"net"
	"slices"
	"strconv"
)

// oftenKey marks the context of a statement that is sent often.
type oftenKey struct{}

// Often returns a context for a statement that callers send often, such as an enqueue. A connection that leads to the
// server itself keeps it prepared; see [Prepared].
func Often(ctx context.Context) context.Context { return context.WithValue(ctx, oftenKey{}, true) }

func isOften(ctx context.Context) bool { return ctx.Value(oftenKey{}) != nil }

// isDirect tells whether the session is the one that the driver has begun. A pooler begins sessions of its own, and may
// hand out another one for each transaction, where a prepared statement is missing, or another client's.
//
// The server tells the number of its process when a session begins, and a pooler tells another number, because it has
// no session yet. An encrypted beginning cannot be read here. Then both ends of the connection must be those that the
// server sees. What cannot be told counts as a pooler.
func (c *conn) isDirect(ctx context.Context) (bool, error) {
	if c.direct != nil {
		return *c.direct, nil
	}
	rows, err := c.Conn.QueryContext(ctx, "select pg_catalog.pg_backend_pid(), "+
		"pg_catalog.host(pg_catalog.inet_server_addr()), pg_catalog.inet_server_port(), "+
		"pg_catalog.host(pg_catalog.inet_client_addr()), pg_catalog.inet_client_port()", nil)
	if err != nil {
		return false, err
	}
	seen := make([]driver.Value, 5)
	if err := rows.Next(seen); err != nil {
		_ = rows.Close()
		return false, err
	}
	c.direct = new(c.beginning.matches(seen))
	return *c.direct, rows.Close()
}

// beginning notes how a session begins. The zero value knows nothing of it.
type beginning struct {
	ends    net.Conn // nil: the application dials itself
	pid     int64    // of the server's process; 0: not read
	unread  []byte   // a part of a message
	skip    int      // bytes of the message that has begun
	stopped bool     // no further byte is read here
}

// matches tells whether the server sees the session as it has begun.
func (b *beginning) matches(seen []driver.Value) bool {
	if b == nil || b.ends == nil {
		return false
	}
	if b.pid != 0 {
		return seen[0] == b.pid
	}
	return isEnd(b.ends.RemoteAddr(), seen[1], seen[2]) && isEnd(b.ends.LocalAddr(), seen[3], seen[4])
}

// isEnd tells whether an address is the one that the server names.
func isEnd(addr net.Addr, host, port driver.Value) bool {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	name, _ := host.(string)
	if raw, ok := host.([]byte); ok {
		name = string(raw)
	}
	number, _ := port.(int64)
	return name != "" && net.JoinHostPort(tcp.IP.String(), strconv.Itoa(tcp.Port)) ==
		net.JoinHostPort(name, strconv.FormatInt(number, 10))
}

// read looks for the number of the server's process in the messages with which a session begins.
func (b *beginning) read(p []byte) {
	const header = 5                                                    // the kind and the length, which counts itself
	if len(p) == 1 && b.unread == nil && (p[0] == 'S' || p[0] == 'N') { // the answer to a request for encryption
		b.stopped = p[0] == 'S'
		return
	}
	for len(p) > 0 && !b.stopped {
		if n := min(b.skip, len(p)); n > 0 {
			b.skip, p = b.skip-n, p[n:]
			continue
		}
		n := min(header+4-len(b.unread), len(p))
		b.unread, p = append(b.unread, p[:n]...), p[n:]
		if len(b.unread) < header {
			return
		}
		length := int(binary.BigEndian.Uint32(b.unread[1:]))
		switch {
		case b.unread[0] == 'K' && len(b.unread) < header+4:
			return
		case b.unread[0] == 'K':
			b.pid, b.stopped = int64(binary.BigEndian.Uint32(b.unread[header:])), true
		case b.unread[0] == 'Z' || length < 4:
			b.stopped = true
		default: // a part of the message has been read with its header
			rest := slices.Concat(b.unread[header:], p)
			b.skip, b.unread, p = length-4, b.unread[:0], rest
		}
	}
}
