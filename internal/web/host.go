package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// HostIsOurs tells whether a request names this server: localhost, one of names, or an IP address.
// A name that begins with a dot matches all names that end in it. A page of another site that makes
// its own name resolve to this server (DNS rebinding) matches none of these.
func HostIsOurs(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.ContainsFunc(names, func(name string) bool {
			return host != "" && (strings.EqualFold(host, name) || strings.HasPrefix(name, ".") &&
				strings.HasSuffix(host, strings.ToLower(name)))
		})
}

// IsLoopback tells whether only this machine can reach an address to listen on.
func IsLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// Guard refuses a request for another host name, with a text for a browser and a Problem for a program. Its message
// names the setting with the names; see [HostIsOurs].
func Guard(names []string, setting string, next http.Handler) http.Handler {
	p := NewProblem(http.StatusMisdirectedRequest,
		"this server does not answer to that name: add the names it has to "+setting)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case HostIsOurs(r.Host, names):
			next.ServeHTTP(w, r)
		case strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Error(w, p.Detail, p.Status)
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			API{}.write(w, r, p.Status, ProblemJSON, p)
		}
	})
}

// Names splits a list at commas and spaces.
func Names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Address returns the address that a request comes from, without a zone.
func Address(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap().WithZone("")
}

// maxForwarded bounds the chain of proxies that is believed.
const maxForwarded = 10

// ProxiedAddress returns a function that returns where a request comes from. If a proxy in one of
// these networks sent it, that is the last address in X-Forwarded-For outside them. It believes no
// other network.
func ProxiedAddress(networks []netip.Prefix) func(r *http.Request) netip.Addr {
	return func(r *http.Request) netip.Addr {
		from := Address(r)
		all := r.Header.Values("X-Forwarded-For")
		for range maxForwarded {
			isProxy := slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(from) })
			if !isProxy || len(all) == 0 {
				break
			}
			last := len(all) - 1
			comma := strings.LastIndexByte(all[last], ',')
			before, err := netip.ParseAddr(strings.TrimSpace(all[last][comma+1:]))
			if err != nil {
				break // nothing further is known
			}
			from = before.Unmap().WithZone("")
			if comma < 0 {
				all = all[:last]
			} else {
				all = append(slices.Clone(all[:last]), all[last][:comma])
			}
		}
		return from
	}
}
