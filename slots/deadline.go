package slots

import (
	"context"
	"sync"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
)

// deadline is the context of a check: it ends with the claim's, at the job's timeout, and after the check. It sets no
// timer until somebody waits for it: most checks are over by then, and a timer is a third of what a check costs.
type deadline struct {
	claim context.Context
	at    time.Time

	mu    sync.Mutex
	armed context.Context // nil: nobody has waited yet
	stop  context.CancelFunc
	over  bool // the check is
}

// end ends the context when the check is over.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.stop != nil {
		d.stop()
	}
}

// arm returns a context that ends on time by itself.
func (d *deadline) arm() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == nil {
		d.armed, d.stop = context.WithDeadlineCause(d.claim, d.at, errTimeout)
		if d.over {
			d.stop()
		}
	}
	return d.armed
}

// quiet tells whether nobody waits, and nothing has ended the context either.
func (d *deadline) quiet() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.armed == nil && !d.over && d.claim.Err() == nil && elapsed.Now().Before(d.at)
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.arm().Done() }

func (d *deadline) Err() error {
	if d.quiet() {
		return nil
	}
	return d.arm().Err()
}

// Value arms, since this is how package context looks for the parent of a context, and for its cause.
func (d *deadline) Value(key any) any { return d.arm().Value(key) }
