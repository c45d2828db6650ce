package pg

import (
	"fmt"
	"net"
	"strings"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/uri"
)

// ServerOf returns the server, or servers, of a database URL, so that callers can compare two URLs.
func ServerOf(url string) (string, error) {
	cfg, err := pq.NewConfig(withPorts(url))
	if err != nil {
		return "", unusable()
	}
	text := fmt.Sprintf("%s %s:%d", cfg.Hostaddr, cfg.Host, cfg.Port)
	for _, m := range cfg.Multi {
		text += fmt.Sprintf(",%s %s:%d", m.Hostaddr, m.Host, m.Port)
	}
	return text, nil
}

// Ports returns the port of each server of a database URL; nil if it is no such URL.
func Ports(url string) []int {
	cfg, err := pq.NewConfig(withPorts(url))
	if err != nil {
		return nil
	}
	ports := []int{int(cfg.Port)}
	for _, m := range cfg.Multi {
		ports = append(ports, int(m.Port))
	}
	return ports
}

// withPorts moves the ports of a URL with several servers (postgres://a:5432,b:5433/shop), as libpq
// takes it, to where the driver looks for them. Returns any other URL unchanged.
func withPorts(raw string) string {
	u, err := uri.Parse(raw)
	if err != nil || !strings.Contains(u.Host, ",") || !strings.Contains(u.Host, ":") {
		return raw
	}
	addresses, ok := uri.Hosts(u, "5432")
	if !ok {
		return raw
	}
	var hosts, ports []string
	for _, address := range addresses {
		host, port, _ := net.SplitHostPort(address)
		hosts, ports = append(hosts, host), append(ports, port)
	}
	query := u.Query()
	query.Set("host", strings.Join(hosts, ","))
	query.Set("port", strings.Join(ports, ","))
	u.Host, u.RawQuery = "", query.Encode()
	return u.String()
}
