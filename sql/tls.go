package sql

import (
	"net/netip"
	"strings"

	"github.com/lib/pq"
)

// OptionalTLS returns the first server of a URL that is on another machine and is connected to with sslmode=prefer, which
// holds where none is set, or with allow: who is in between can have the connection unencrypted, and stand for the server.
// Returns "" if there is none, or the URL cannot be parsed.
func OptionalTLS(url string) (host string) {
	cfg, err := pq.NewConfig(withPorts(url))
	if err != nil || cfg.SSLMode != "" && cfg.SSLMode != pq.SSLModePrefer && cfg.SSLMode != pq.SSLModeAllow {
		return ""
	}
	servers := append([]pq.ConfigMultihost{{Host: cfg.Host, Hostaddr: cfg.Hostaddr}}, cfg.Multi...)
	for _, s := range servers {
		address := s.Hostaddr
		if !address.IsValid() {
			address, _ = netip.ParseAddr(strings.Trim(s.Host, "[]"))
		}
		isLocal := address.IsLoopback() || s.Host == "" && !address.IsValid() || s.Host == "localhost" || strings.HasPrefix(s.Host, "/") || strings.HasPrefix(s.Host, "@")
		if !isLocal {
			return s.Host
		}
	}
	return ""
}
