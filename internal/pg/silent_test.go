package pg

import (
	"context"
	"database/sql/driver"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// silent dials a server whose host answers nothing, for a moment.
type silent struct{ driver.Connector }

func (silent) Connect(ctx context.Context) (driver.Conn, error) {
	_, err := (&net.Dialer{Deadline: time.Now().Add(-time.Second)}).DialContext(ctx, "tcp", "127.0.0.1:1")
	return nil, err
}

func TestAHostThatDoesNotAnswerIsAFailureForAWhile(t *testing.T) {
	t.Parallel()
	c := connector{silent{}, new(preparing), nil, new(atomic.Bool)}
	_, err := c.Connect(t.Context())
	if !IsTransient(err) || !strings.Contains(err.Error(), "127.0.0.1:1: i/o timeout") {
		t.Errorf("the server does not answer: %v", err)
	}
	ctx, end := context.WithTimeout(t.Context(), 0)
	defer end()
	if _, err := c.Connect(ctx); err == nil || IsTransient(err) {
		t.Errorf("the context of the caller has ended: %v", err)
	}
}
