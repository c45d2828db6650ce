package claim

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/elapsed"
	"github.com/prescient-go/prescient/slots/internal/db"
)

// until is a right that ends at an instant.
type until time.Time

func (u until) EndsBefore(at time.Time) bool { return time.Time(u).Before(at) }

func TestALeaseIsDroppedBeforeItCanEnd(t *testing.T) {
	t.Parallel()
	const length = time.Minute
	for name, test := range map[string]struct {
		ago  time.Duration // since it was renewed
		with time.Duration // that the right is good for which it needs
		lost bool
	}{
		"just renewed":                    {0, length, false},
		"a heartbeat is late":             {length / 2, length, false},
		"a tenth of it is left":           {length * 9 / 10, length, true},
		"it has ended":                    {2 * length, length, true},
		"what it needs is about to end":   {0, length / 20, true},
		"what it needs was not taken yet": {0, 1000 * length, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := NewKeeper(&Session{Server: &db.Server{Lease: length, Logger: slog.New(slog.DiscardHandler)}})
			l := NewLease()
			l.Extend(elapsed.Now().Add(-test.ago), length)
			l.Begin(t.Context(), until(elapsed.Now().Add(test.with)))
			defer l.Release()
			k.Add(l)
			if lost := k.LoseExpired(l); lost != test.lost || errors.Is(context.Cause(l.Ctx), ErrLost) != test.lost || len(k.list()) == 1 == test.lost {
				t.Errorf("expired %t, want %t; the cause is %v, and %d leases are held", lost, test.lost, context.Cause(l.Ctx), len(k.list()))
			}
			k.Lose(l) // once is enough
			if want := 1; k.Lost() != want {
				t.Errorf("%d leases are lost, want %d", k.Lost(), want)
			}
		})
	}
}

func TestALeaseThatIsDoneIsNotLost(t *testing.T) {
	t.Parallel()
	k := NewKeeper(&Session{Server: &db.Server{Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)}})
	l := NewLease()
	l.Extend(elapsed.Now(), time.Minute)
	l.Begin(t.Context())
	k.Add(l)
	k.Remove(l)
	k.Lose(l)
	if k.Lost() != 0 || l.Ctx.Err() != nil || !l.IsValid() {
		t.Errorf("%d leases are lost; %v", k.Lost(), context.Cause(l.Ctx))
	}
	if l.Release(); errors.Is(context.Cause(l.Ctx), ErrLost) || l.Ctx.Err() == nil {
		t.Errorf("released: %v", context.Cause(l.Ctx))
	}
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for range 1000 {
		token := NewToken()
		if seen[token] || token < 0 {
			t.Fatalf("token %d", token)
		}
		seen[token] = true
	}
}
