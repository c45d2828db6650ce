// Package call has what a call of a job's function ends with: the context that ends at its timeout, the watch by which
// it is abandoned, and the errors and log lines of a function that does not return properly. It knows no SQL and no
// claims.
package call

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

// The errors of checks that do not return properly, as they stand in last_error.
var (
	ErrTimeout = errors.New("timeout")
	ErrIgnored = errors.New("the check went on and was abandoned")
	ErrGoexit  = errors.New("the check called runtime.Goexit")
)

// Most returns how long a function may take before it is abandoned. The timeout may be the longest duration.
func Most(timeout, grace time.Duration) time.Duration {
	return timeout + min(grace, math.MaxInt64-timeout)
}

// Context is the context of a check: it ends with its parent, at the job's timeout, and after the check. It sets no
// timer until the function waits for it: most checks are over by then, and a timer is a third of the cost of a check.
type Context struct {
	parent context.Context
	at     time.Time

	mu    sync.Mutex
	armed context.Context // nil: the function has not waited yet
	stop  context.CancelFunc
	over  bool // the check is
}

// NewContext returns a context that ends with its parent, and at an instant.
func NewContext(parent context.Context, at time.Time) *Context {
	return &Context{parent: parent, at: at}
}

// Restart moves the instant at which the context ends. Call it before the function has the context.
func (c *Context) Restart(at time.Time) { c.at = at }

// End ends the context when the check is over.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}

// arm returns a context that ends on time by itself.
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

// quiet tells whether the function does not wait, and nothing has ended the context either.
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

// Value arms, since this is how package context looks for the parent of a context, and for its cause.
func (c *Context) Value(key any) any { return c.arm().Value(key) }
