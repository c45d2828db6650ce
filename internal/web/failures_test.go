package web

import (
	"net/netip"
	"testing"
	"time"
)

// stopwatch is a clock that measures durations. The test moves it.
type stopwatch struct{ time.Time }

func (s *stopwatch) now() time.Time          { return s.Time }
func (s *stopwatch) forward(d time.Duration) { s.Time = s.Add(d) }

func TestFiveTokensAMinuteMayBeWrongFromAnAddress(t *testing.T) {
	t.Parallel()
	clock := &stopwatch{time.Unix(1e9, 0)}
	f := NewFailures(clock.now)
	try := func(address string, n int) (taken int) {
		for range n {
			if a := netip.MustParseAddr(address); !f.TooMany(a) {
				f.Wrong(a)
				taken++
			}
		}
		return taken
	}
	for _, step := range []struct {
		address string
		n, want int
	}{
		{"192.0.2.1", 7, 5},
		{"192.0.2.2", 7, 5},
		{"::ffff:192.0.2.1", 1, 0}, // the same address
		{"2001:db8::1", 7, 5},
		{"2001:db8::2", 1, 0}, // of the same network
		{"2001:db8:0:1::1", 1, 1},
	} {
		if got := try(step.address, step.n); got != step.want {
			t.Errorf("%s: %d of %d are taken, want %d", step.address, got, step.n, step.want)
		}
	}
	clock.forward(failuresFor + time.Second)
	if got := try("192.0.2.1", 4); got != 4 {
		t.Errorf("a minute later %d of 4 are taken", got)
	}
}

func TestAddressesAreRememberedInBoundedMemory(t *testing.T) {
	t.Parallel()
	clock := &stopwatch{time.Unix(1e9, 0)}
	f := NewFailures(clock.now)
	address := netip.MustParseAddr("10.0.0.0")
	taken := 0
	for range 2 * maxAddresses {
		address = address.Next()
		if !f.TooMany(address) {
			f.Wrong(address)
			taken++
		}
	}
	if len(f.byIP) > maxAddresses+1 || taken != maxAddresses+maxFailures {
		t.Errorf("%d addresses are remembered, %d tokens were looked at", len(f.byIP), taken)
	}
	clock.forward(failuresFor + time.Second)
	if f.Wrong(address.Next()); len(f.byIP) > 1 {
		t.Errorf("a minute later %d are remembered", len(f.byIP))
	}
}
