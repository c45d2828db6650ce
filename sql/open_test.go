package sql

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

func TestAServerThatSaysNothingIsGivenUpWhenTheTimeToConnectIsOver(t *testing.T) {
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
