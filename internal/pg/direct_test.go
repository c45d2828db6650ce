package pg

import (
	"database/sql/driver"
	"net"
	"slices"
	"testing"
)

// message is one of the server.
func message(kind byte, body string) []byte {
	return append([]byte{kind, 0, 0, byte((len(body) + 4) >> 8), byte(len(body) + 4)}, body...)
}

func TestTheProcessOfTheServerIsReadHoweverItsMessagesAreDivided(t *testing.T) {
	t.Parallel()
	long := make([]byte, 700)
	begin := slices.Concat(
		message('R', "\x00\x00\x00\x00"), message('N', ""), message('S', "application_name\x00K\x00"), message('S', string(long)),
		message('K', "\x00\x01\x02\x03secret"), message('Z', "I"))
	for size := 1; size <= len(begin); size++ {
		b := &beginning{}
		for part := range slices.Chunk(begin, size) {
			b.read(part)
		}
		if b.pid != 0x010203 || !b.stopped {
			t.Errorf("in parts of %d bytes: process %d", size, b.pid)
		}
	}
}

func TestNothingIsReadOfAnEncryptedBeginning(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int64{"S": 0, "N": 7} {
		b := &beginning{}
		b.read([]byte(answer))
		if !b.stopped {
			b.read(message('K', "\x00\x00\x00\x07secret"))
		}
		if b.pid != want {
			t.Errorf("after %s: process %d", answer, b.pid)
		}
	}
}

// ended is a connection with the given ends.
type ended struct {
	net.Conn
	local, remote net.Addr
}

func (e ended) LocalAddr() net.Addr  { return e.local }
func (e ended) RemoteAddr() net.Addr { return e.remote }

func TestASessionIsDirectIfTheServerSeesBothEndsOfItsConnection(t *testing.T) {
	t.Parallel()
	at := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	tcp := ended{local: at("10.0.0.1", 40000), remote: at("10.0.0.2", 5432)}
	socket := ended{local: &net.UnixAddr{}, remote: &net.UnixAddr{Name: "/tmp/.s.PGSQL.5432"}}
	for name, test := range map[string]struct {
		begun *beginning
		seen  []driver.Value
		want  bool
	}{
		"the process":              {&beginning{ends: socket, pid: 7}, []driver.Value{int64(7), nil, nil, nil, nil}, true},
		"another process":          {&beginning{ends: tcp, pid: 8}, []driver.Value{int64(7), "10.0.0.2", int64(5432), "10.0.0.1", int64(40000)}, false},
		"both ends":                {&beginning{ends: tcp}, []driver.Value{int64(7), "10.0.0.2", int64(5432), "10.0.0.1", int64(40000)}, true},
		"both ends, IPv6":          {&beginning{ends: ended{local: at("fd00::1", 1), remote: at("fd00::2", 2)}}, []driver.Value{int64(7), "fd00::2", int64(2), "fd00::1", int64(1)}, true},
		"another server":           {&beginning{ends: tcp}, []driver.Value{int64(7), "10.0.0.3", int64(5432), "10.0.0.1", int64(40000)}, false},
		"another port":             {&beginning{ends: tcp}, []driver.Value{int64(7), "10.0.0.2", int64(5433), "10.0.0.1", int64(40000)}, false},
		"another client":           {&beginning{ends: tcp}, []driver.Value{int64(7), "10.0.0.2", int64(5432), "10.0.0.9", int64(40000)}, false},
		"another connection":       {&beginning{ends: tcp}, []driver.Value{int64(7), "10.0.0.2", int64(5432), "10.0.0.1", int64(40001)}, false},
		"a pooler with a socket":   {&beginning{ends: tcp}, []driver.Value{int64(7), nil, nil, nil, int64(-1)}, false},
		"a socket, and no process": {&beginning{ends: socket}, []driver.Value{int64(7), nil, nil, nil, int64(-1)}, false},
		"dialed elsewhere":         {nil, []driver.Value{int64(7), "10.0.0.2", int64(5432), "10.0.0.1", int64(40000)}, false},
	} {
		if got := test.begun.matches(test.seen); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
