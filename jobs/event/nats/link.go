package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// redial is how long an attempt to connect that failed stands for those that follow.
const redial = time.Second

// link connects when a caller needs a connection and has none.
type link struct {
	options nats.Options

	mu     sync.Mutex
	latest *attempt
	closed bool
}

// attempt is one to connect. Its result is set when done is closed.
type attempt struct {
	done chan struct{}
	js   jetstream.JetStream
	err  error
	at   time.Time
}

// get returns a connection. Concurrent callers wait for the same new connection, each until its
// context ends.
func (l *link) get(ctx context.Context) (jetstream.JetStream, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errors.New("the publisher is closed")
	}
	if l.latest == nil || l.latest.over() {
		l.latest = &attempt{done: make(chan struct{})}
		go l.latest.connect(l.options)
	}
	latest := l.latest
	l.mu.Unlock()

	select {
	case <-latest.done:
		return latest.js, latest.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *attempt) connect(options nats.Options) {
	defer close(a.done)
	conn, err := options.Connect()
	if err == nil {
		a.js, err = jetstream.New(conn)
	}
	if err != nil {
		a.err = fmt.Errorf("connect to %s: %w", strings.Join(options.Servers, ","), err)
	}
	a.at = elapsed.Now()
}

// over tells whether there is nothing left of an attempt: its connection is lost, or it failed some
// time ago.
func (a *attempt) over() bool {
	select {
	case <-a.done:
	default:
		return false
	}
	if a.err != nil {
		return time.Since(a.at) > redial
	}
	return a.js.Conn().IsClosed()
}

func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	latest := l.latest
	l.mu.Unlock()
	if latest == nil {
		return
	}
	if <-latest.done; latest.err == nil {
		latest.js.Conn().Close()
	}
}
