package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/elapsed"
)

func TestConnectingToASilentServerEndsWithTheConnectTimeout(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	go func() { _, _ = there.Write([]byte("x")) }()
	conn := &deadlineConn{Conn: here, reply: time.Hour}
	if err := conn.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes after the deadline: %v", n, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote after the deadline: %v", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read %d bytes without a deadline: %v", n, err)
	}
}

func TestTheErrorOfASilentServerSaysHowToFindTheLock(t *testing.T) {
	t.Parallel()
	here, _ := net.Pipe()
	conn := &deadlineConn{Conn: here, reply: time.Millisecond}
	_, err := conn.Read(make([]byte, 1))
	if _, ok := err.(*net.OpError); !ok { //nolint:errorlint // so does the driver
		t.Errorf("the driver would keep a connection with the error %T", err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || !IsTransient(err) {
		t.Errorf("no timeout of the network: %v", err)
	}
	text := err.Error()
	if !strings.Contains(text, "has not answered for 1ms") || !strings.Contains(text, "pg_blocking_pids") {
		t.Error(text)
	}
	if failed, ok := errors.AsType[net.Error](err); !ok || !failed.Timeout() {
		t.Errorf("no timeout: %v", err)
	}
}

func TestAStoppedCallerDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]func(*Options){nil, {Patient()}} {
		for _, url := range []string{
			"postgres://somebody@%s/shop?sslmode=disable", "postgres://somebody@%s/shop?sslmode=require",
			"postgres://somebody@%[1]s,%[1]s/shop",
		} {
			server, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if conn, err := server.Accept(); err == nil {
					_, _ = conn.Read(make([]byte, 8)) // the driver has sent its first message
					cancel()
					<-t.Context().Done()
					_ = conn.Close()
				}
			}()
			began := elapsed.Now()
			_, err = Open(ctx, fmt.Sprintf(url, server.Addr()), opts...)
			if took := time.Since(began); !errors.Is(err, context.Canceled) || took > connectTimeout/2 {
				t.Errorf("%s: after %s %v", url, took, err)
			}
			cancel()
		}
	}
}

func TestAConnectionGivenUpForMissingTLSIsClosed(t *testing.T) {
	t.Parallel()
	server, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	left := make(chan error, 1)
	go func() {
		asked, err := server.Accept()
		if err != nil {
			return
		}
		_, _ = asked.Read(make([]byte, 8))
		_, _ = asked.Write([]byte("N"))
		plain, err := server.Accept()
		if err != nil {
			return
		}
		_ = errors.Join(plain.Close(), asked.SetReadDeadline(elapsed.Now().Add(ReplyTimeout)))
		_, err = asked.Read(make([]byte, 1))
		left <- err
	}()
	if _, err := Open(t.Context(), "postgres://somebody@"+server.Addr().String()+"/shop?sslmode=prefer"); err == nil {
		t.Fatal("it was let in")
	}
	select {
	case err := <-left:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(await.Limit):
		t.Error("it is still there")
	}
}

func TestAVariableThatTheDriverRefusesIsNamedAndNotTheURL(t *testing.T) { //nolint:paralleltest // it sets the environment
	for name, value := range map[string]string{"PGGSSENCMODE": "disable", "PGPORT": "many"} {
		t.Setenv(name, value)
		for _, open := range []func() error{
			func() error { _, err := Open(t.Context(), "postgres://somebody:secret@127.0.0.1:1/shop"); return err },
			func() error { _, err := ServerOf("postgres://somebody:secret@127.0.0.1:1/shop"); return err },
		} {
			err := open()
			if err == nil || errors.Is(err, ErrURL) || !strings.Contains(err.Error(), "$"+name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}
