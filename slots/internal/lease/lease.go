// Package lease keeps what a run holds its own: it renews the leases three times in the time that they last, ends the
// context of one that is lost, with ErrLost as the cause, and releases what is not done. It knows tokens alone. What
// else is to be renewed by the token of the run is a Companion.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/slots/internal/elapsed"
	pgsql "github.com/prescient-go/prescient/sql"
)

// ErrLost is the cause of the context of a lease that another runner may have by now.
var ErrLost = errors.New("lease lost")

// IsLost tells whether the fence of a record has found no lease.
func IsLost(err error) bool { return pgsql.HasState(err, "PS001") || errors.Is(err, ErrLost) }

// NewToken returns a random token, which no other lease has. A runner that gets no reply asks for the same claim again
// by it.
func NewToken() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

// Lease is a right that ends when it is not renewed in time.
type Lease struct {
	Token int64
	// Watch is called often while the lease is good. Set it before Keeper.Add. Optional.
	Watch func()

	needs  []Companion
	ctx    context.Context
	cancel context.CancelCauseFunc
	until  atomic.Pointer[time.Time] // local monotonic instant before which it does not end
	ending atomic.Bool
}

// New returns a lease under a token of its own. Call Extend before each statement that asks for it, and Begin when it
// is there.
func New() *Lease { return &Lease{Token: NewToken()} }

// Extend notes that the lease is asked for, or renewed, by a statement that is sent after an instant: it cannot end
// earlier than counted from there.
func (l *Lease) Extend(asked time.Time, length time.Duration) { l.until.Store(new(asked.Add(length))) }

// Begin derives the context of the lease, which ends when the lease is lost or released. Without one of the companions
// that it needs the lease is no good.
func (l *Lease) Begin(ctx context.Context, needs ...Companion) context.Context {
	l.needs = needs
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l.ctx
}

// Release ends the context.
func (l *Lease) Release() { l.cancel(nil) }

// Ending notes whether the record that ends the lease is on its way. A heartbeat that does not find the lease then has
// not lost it.
func (l *Lease) Ending(is bool) { l.ending.Store(is) }

// IsEnding tells whether the record that ends the lease is on its way.
func (l *Lease) IsEnding() bool { return l.ending.Load() }

// Good reports whether no other runner can have taken the lease over yet.
func (l *Lease) Good() bool { return elapsed.Now().Before(*l.until.Load()) }

// endsBefore tells whether the lease, or what it needs, may end before an instant.
func (l *Lease) endsBefore(at time.Time) bool {
	return l.until.Load().Before(at) || slices.ContainsFunc(l.needs, func(c Companion) bool { return c.EndsBefore(at) })
}
