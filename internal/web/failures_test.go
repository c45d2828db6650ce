package web

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestFiveTokensAMinuteMayBeWrongFromAnAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFailures()
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
		time.Sleep(failuresFor + time.Second)
		if got := try("192.0.2.1", 4); got != 4 {
			t.Errorf("a minute later %d of 4 are taken", got)
		}
	})
}

func TestAddressesAreRememberedInBoundedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFailures()
		address := netip.MustParseAddr("10.0.0.0")
		taken := 0
		for range 2 * maxAddresses {
			address = address.Next()
			if !f.TooMany(address) {
				f.Wrong(address)
				taken++
			}
		}
		remembered := func() uint64 { m := f.byIP.Metrics(); return m.Insertions - m.Evictions }
		if n := remembered(); n > maxAddresses+1 || taken != maxAddresses+maxFailures {
			t.Errorf("%d addresses are remembered, %d tokens were looked at", n, taken)
		}
		time.Sleep(failuresFor + time.Second)
		if f.Wrong(address.Next()); remembered() > 1 {
			t.Errorf("a minute later %d are remembered", remembered())
		}
	})
}
