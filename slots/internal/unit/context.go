package unit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
)

// The errors of checks that do not return properly, as last_error has them.
var (
	ErrTimeout = errors.New("timeout")
	ErrIgnored = errors.New("the check went on and was abandoned")
	ErrGoexit  = errors.New("the check called runtime.Goexit")
)

// Context is the context of a check. It ends with its parent, at the job's timeout, and after the check.
// It sets no timer until the function waits for it: most checks never do, and a timer is a third of the
// cost of a check.
type Context struct {
	parent context.Context
	at     time.Time

	mu    sync.Mutex
	armed context.Context // nil: the function has not waited yet
	stop  context.CancelFunc
	over  bool // the check has returned
}

// NewContext returns a context that ends with its parent, or at an instant.
func NewContext(parent context.Context, at time.Time) *Context {
	return &Context{parent: parent, at: at}
}

// Restart moves the instant at which the context ends. Call it before the function gets the context.
func (c *Context) Restart(at time.Time) { c.at = at }

// End ends the context after the check.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}

// arm returns a context with a timer, which ends at the timeout by itself.
func (c *Context) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		c.armed, c.stop = context.WithDeadlineCause(c.parent, c.at, ErrTimeout)
		if c.over {
			c.stop()
		}
	}
	return c.armed
}

// quiet reports whether the function does not wait and the context has not ended.
func (c *Context) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed == nil && !c.over && c.parent.Err() == nil && elapsed.Now().Before(c.at)
}

// Deadline returns the instant at which the context ends.
func (c *Context) Deadline() (time.Time, bool) { return c.at, true }

// Done arms.
func (c *Context) Done() <-chan struct{} { return c.arm().Done() }

// Err arms only once the context has ended.
func (c *Context) Err() error {
	if c.quiet() {
		return nil
	}
	return c.arm().Err()
}

// Value arms: context.Cause asks Value for the context that has the cause, so the timer must exist by then.
func (c *Context) Value(key any) any { return c.arm().Value(key) }
