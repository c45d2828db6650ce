package pg

import (
	"net/netip"
	"strings"

	"github.com/lib/pq"
)

// OptionalTLS returns the first server of a URL that is on another machine and whose sslmode is
// prefer or allow. prefer is the default. An attacker in between can then turn encryption off and
// pose as the server. Returns "" if there is none, or if the URL cannot be parsed.
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
		isLocal := address.IsLoopback() || s.Host == "" && !address.IsValid() || s.Host == "localhost" ||
			strings.HasPrefix(s.Host, "/") || strings.HasPrefix(s.Host, "@")
		if !isLocal {
			return s.Host
		}
	}
	return ""
}
