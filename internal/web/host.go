package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// HostIsOurs tells whether a request was sent to this server by a name of ours: localhost, one of names, or an address. A page of
// another site that has its own name resolve to us (DNS rebinding) has none of these.
func HostIsOurs(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.ContainsFunc(names, func(name string) bool {
		return host != "" && strings.EqualFold(host, name)
	})
}

// IsLoopback tells whether an address to listen on is one that this machine alone reaches.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// Address is who has connected.
func Address(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr()
}

// ProxiedAddress is who has connected to the proxy in front of the server, as that says.
func ProxiedAddress(r *http.Request) netip.Addr {
	all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if a, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1])); err == nil {
		return a
	}
	return Address(r)
}
