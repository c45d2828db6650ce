package claim

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/slots/internal/db"
)

// MinLease is the shortest lease. A heartbeat must have time to arrive.
const MinLease = time.Second

// lookEvery is how often a keeper looks for leases that are about to end.
const lookEvery = 100 * time.Millisecond

// Renewer has permits that a heartbeat renews together with the leases.
type Renewer interface {
	// Renew adds to a heartbeat a statement that renews the permits. The keeper calls renewed once the heartbeat is
	// committed, with the local monotonic instant before it was sent. Permits that did not come back are lost.
	Renew(m *pg.Message) (renewed func(asked time.Time))
}

// Keeper keeps the leases of a run. Its methods are safe for concurrent use.
type Keeper struct {
	server *db.Server
	token  int64 // of the run
	slot   time.Time
	soon   chan struct{} // a lease that took long to get must be renewed now

	mu       sync.Mutex
	held     map[int64]*Lease
	renewers []Renewer
	lost     int
	failing  bool // the last heartbeat failed, and the log has it
}

// NewKeeper returns the keeper of the leases of a run.
func NewKeeper(s *Session) *Keeper {
	return &Keeper{server: s.Server, token: s.Token, slot: s.Slot, soon: make(chan struct{}, 1), held: map[int64]*Lease{}}
}

// Add keeps a lease that has begun.
func (k *Keeper) Add(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[l.Token] = l
	if time.Until(*l.until.Load()) < k.server.Lease*2/3 {
		select {
		case k.soon <- struct{}{}:
		default:
		}
	}
}

// Join adds a renewer, which each heartbeat asks to renew.
func (k *Keeper) Join(r Renewer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewers = append(k.renewers, r)
}

// Remove forgets a lease that has ended with the record of its last row.
func (k *Keeper) Remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, l.Token)
}

// Lost returns the number of lost leases.
func (k *Keeper) Lost() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost
}

// Lose drops a lease that this runner has lost, and ends its context with ErrLost as the cause.
func (k *Keeper) Lose(l *Lease) {
	if k.drop(l) {
		l.cancel(ErrLost)
		k.server.Logger.WarnContext(l.Ctx, "lease lost", "slot", k.slot, "claim", l.Token)
	}
}

// drop forgets a lease, and reports whether the run held it.
func (k *Keeper) drop(l *Lease) (held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held = k.held[l.Token]; held {
		delete(k.held, l.Token)
		k.lost++
	}
	return held
}

// Beat renews the leases three times in their length, until ctx ends. In between it drops each lease
// shortly before it can end. Beat repeats a heartbeat that fails. A heartbeat without an answer does
// not hold up the next one.
func (k *Keeper) Beat(ctx context.Context) {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renew, look := time.Tick(k.server.Lease/3), time.Tick(lookEvery)
	busy := make(chan struct{}, 2)
	beat := func() {
		select {
		case busy <- struct{}{}:
			renewing.Go(func() {
				defer func() { <-busy }()
				for !k.renew(ctx) && elapsed.Sleep(ctx, lookEvery) {
				}
			})
		default:
		}
	}
	for {
		select {
		case <-renew:
			beat()
		case <-k.soon:
			beat()
		case <-look:
			for _, l := range k.list() {
				k.LoseExpired(l)
			}
		case <-ctx.Done():
			return
		}
	}
}

// renew renews the leases once, if the database answers. A lease that another runner has taken over is
// lost. If the database never answers, LoseExpired drops the leases. It also drops a lease that needs a
// right that was lost.
func (k *Keeper) renew(ctx context.Context) bool {
	leases := k.list()
	tokens := append(pq.Int64Array{k.token}, tokensOf(leases)...)
	ctx, cancel := context.WithTimeout(ctx, k.server.Lease/3)
	defer cancel()
	var m pg.Message
	kept := map[int64]bool{}
	m.Add(pg.ClaimRenew.In(k.server.Schema), []any{tokens, k.server.Lease.Microseconds()}, db.Into(kept))
	var renewed []func(asked time.Time)
	for _, c := range k.joined() {
		renewed = append(renewed, c.Renew(&m))
	}
	asked := elapsed.Now() // before the statement: the lease cannot end earlier than counted from here
	if err := k.server.Commit(ctx, &m); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			k.server.Logger.Log(ctx, k.levelOfFailure(), "heartbeat failed", "error", err)
		}
		return false
	}
	k.succeeded()
	for _, of := range renewed {
		of(asked)
	}
	for _, l := range leases {
		if kept[l.Token] {
			l.Extend(asked, k.server.Lease)
		} else if !l.IsEnding() { // otherwise it may be gone because its last rows were recorded
			k.Lose(l)
		}
	}
	return true
}

// levelOfFailure returns the level at which to log a failed heartbeat: a warning for the first one, and
// debug for the next ones until one succeeds. They are repeated ten times a second.
func (k *Keeper) levelOfFailure() slog.Level {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failing {
		return slog.LevelDebug
	}
	k.failing = true
	return slog.LevelWarn
}

// succeeded notes that a heartbeat succeeded.
func (k *Keeper) succeeded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failing = false
}

// LoseExpired drops a lease shortly before it can end, and reports whether it did. It measures the time on
// the local monotonic clock, so a lease also ends if the network is dead or the process was stopped for
// a while.
func (k *Keeper) LoseExpired(l *Lease) bool {
	late := l.endsBefore(elapsed.Now().Add(k.server.Lease / 10))
	if late {
		k.Lose(l)
	}
	return late
}

// HandBack gives up all leases, and that of the run, so that other runners need not wait until they
// end.
func (k *Keeper) HandBack(ctx context.Context) {
	var m pg.Message
	m.Add(pg.ClaimRelease.In(k.server.Schema), []any{tokensOf(k.list()), k.token}, db.Nothing)
	if err := k.server.Commit(ctx, &m); err != nil {
		k.server.Logger.WarnContext(ctx, "claims were not handed back; other runners take them over when their leases end",
			"error", err)
	}
}

func (k *Keeper) joined() []Renewer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.renewers)
}

func (k *Keeper) list() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.held))
}

func tokensOf(leases []*Lease) pq.Int64Array {
	tokens := pq.Int64Array{}
	for _, l := range leases {
		tokens = append(tokens, l.Token)
	}
	return tokens
}
