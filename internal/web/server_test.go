package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// one is a listener with one connection, in memory.
type one struct {
	conn chan net.Conn
	net.Listener
}

func (l one) Accept() (net.Conn, error) {
	conn, ok := <-l.conn
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (l one) Addr() net.Addr { return &net.UnixAddr{} }
func (l one) Close() error   { return nil }

func TestAClientThatIsSlowOrDoesNothingIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent   string
		status int           // of the answer, which comes first; 0: there is none
		closed time.Duration // after this, at the latest
	}{
		"a head that does not end":      {"GET / HTTP/1.1\r\nHost: a\r\n", 0, 10 * time.Second},
		"a body that does not come":     {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{", http.StatusRequestTimeout, 31 * time.Second},
		"a connection that is not used": {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", http.StatusOK, 2 * time.Minute},
		"a head that is too large":      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + string(make([]byte, 100<<10)), 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
						w.WriteHeader(http.StatusRequestTimeout)
					}
				}))
				client, served := net.Pipe()
				listener := one{conn: make(chan net.Conn, 1)}
				listener.conn <- served
				go func() { _ = server.Serve(listener) }()
				began := time.Now()
				go func() { _, _ = fmt.Fprint(client, test.sent) }()
				reader := bufio.NewReader(client)
				answer, err := http.ReadResponse(reader, nil)
				if test.status != 0 && (err != nil || answer.StatusCode != test.status) {
					t.Errorf("answered %+v, %v; want %d", answer, err, test.status)
				}
				if _, err := io.Copy(io.Discard, reader); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > test.closed {
					t.Errorf("closed after %s, want %s at the latest", took, test.closed)
				}
				close(listener.conn)
				_ = client.Close()
			})
		})
	}
}

func TestTheLogHasAURLToClick(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"0.0.0.0": "localhost", "127.0.0.1": "localhost", "127.0.0.2": "127.0.0.2", "::": "localhost", "::1": "[::1]",
	} {
		if got := localURL(&net.TCPAddr{IP: net.ParseIP(host), Port: 8088}); got != "http://"+want+":8088/" {
			t.Errorf("%s: %s", host, got)
		}
	}
	var log strings.Builder
	at, end, err := Listen(t.Context(), "localhost:0", http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	end()
	if want := fmt.Sprintf("url=http://localhost:%d/", at.(*net.TCPAddr).Port); !strings.Contains(log.String(), want) {
		t.Errorf("%s is missing in %s", want, log.String())
	}
}
