package claim

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
)

// ErrLost is the cause with which the context of a lease ends if another runner may have the lease, or a right that
// the lease needs.
var ErrLost = errors.New("lease lost")

// IsLost reports whether the fence of a record has found no lease.
func IsLost(err error) bool { return pg.HasState(err, "PS001") || errors.Is(err, ErrLost) }

// NewToken returns a random token, which no other lease has. If a reply is lost, the runner asks for
// the same claim again by its token.
func NewToken() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return int64(binary.BigEndian.Uint64(b[:]) >> 1)
}

// Lease is a right that ends unless it is renewed in time.
type Lease struct {
	Token int64
	Ctx   context.Context // of the checks, from Begin on; ends when the lease is lost or released

	needs  []Requirement
	cancel context.CancelCauseFunc
	until  atomic.Pointer[time.Time] // local monotonic instant until which it lasts
	ending atomic.Bool
}

// NewLease returns a lease with a token of its own. Call Extend before each statement that asks for it, and Begin once
// it is granted.
func NewLease() *Lease { return &Lease{Token: NewToken()} }

// Extend notes that a statement, sent after the instant asked, asks for the lease or renews it. The
// lease cannot end earlier than its length after that instant.
func (l *Lease) Extend(asked time.Time, length time.Duration) { l.until.Store(new(asked.Add(length))) }

// Requirement is something that a lease needs, such as a permit. The lease ends with it.
type Requirement interface {
	// EndsBefore reports whether the requirement may end before an instant, or is lost.
	EndsBefore(at time.Time) bool
}

// Begin derives Ctx from the context of the run's checks. The lease ends with the first of its requirements.
func (l *Lease) Begin(ctx context.Context, needs ...Requirement) {
	l.needs = needs
	l.Ctx, l.cancel = context.WithCancelCause(ctx)
}

// Release ends Ctx.
func (l *Lease) Release() { l.cancel(nil) }

// SetEnding notes whether the record that ends the lease is on its way. Then the lease is not lost if a
// heartbeat does not find it.
func (l *Lease) SetEnding(is bool) { l.ending.Store(is) }

// IsEnding reports whether the record that ends the lease is on its way.
func (l *Lease) IsEnding() bool { return l.ending.Load() }

// IsValid reports whether no other runner can have taken the lease over yet.
func (l *Lease) IsValid() bool { return elapsed.Now().Before(*l.until.Load()) }

// endsBefore reports whether the lease, or a requirement of it, may end before an instant.
func (l *Lease) endsBefore(at time.Time) bool {
	return l.until.Load().Before(at) || slices.ContainsFunc(l.needs, func(r Requirement) bool { return r.EndsBefore(at) })
}
