package web

import (
	"net/netip"
	"sync"
	"time"

	"github.com/jellydator/ttlcache/v3"
)

const (
	// maxFailures bounds the wrong tokens of an address within failuresFor. An address is an IPv4
	// address, or an IPv6 network, which belongs to one machine.
	maxFailures = 5
	failuresFor = time.Minute
	// maxAddresses bounds the addresses that are remembered. All others share one counter.
	maxAddresses = 10_000
)

// Failures counts wrong tokens by address, in bounded memory. It is safe for concurrent use.
type Failures struct {
	mu   sync.Mutex
	byIP *ttlcache.Cache[netip.Prefix, *int] // each until failuresFor after its first wrong token
}

// NewFailures returns an empty Failures.
func NewFailures() *Failures {
	return &Failures{byIP: ttlcache.New(ttlcache.WithTTL[netip.Prefix, *int](failuresFor),
		ttlcache.WithDisableTouchOnHit[netip.Prefix, *int]())}
}

// TooMany tells whether an address has sent too many wrong tokens lately. Its next token is then
// refused unread.
func (f *Failures) TooMany(address netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.byIP.Get(f.key(address))
	return n != nil && *n.Value() >= maxFailures
}

// Wrong counts a wrong token.
func (f *Failures) Wrong(address netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _ := f.byIP.GetOrSet(f.key(address), new(int))
	*n.Value()++
}

// key returns what the wrong tokens of an address are counted by: its network, or the zero Prefix
// if it shares the counter.
func (f *Failures) key(address netip.Addr) netip.Prefix {
	f.byIP.DeleteExpired()
	of := network(address)
	if !f.byIP.Has(of) && f.byIP.Len() >= maxAddresses {
		return netip.Prefix{}
	}
	return of
}

func network(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}
