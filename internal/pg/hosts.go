package pg

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/lib/pq"
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

// withPorts moves the ports of a URL with several servers (postgres://a:5432,b:5433/shop), as libpq
// takes it, to where the driver looks for them. Returns any other URL unchanged.
func withPorts(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || !strings.Contains(u.Host, ",") || !strings.Contains(u.Host, ":") {
		return raw
	}
	var hosts, ports []string
	for _, address := range strings.Split(u.Host, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil { // it names no port
			host, port = address, "5432"
		}
		hosts, ports = append(hosts, host), append(ports, port)
	}
	query := u.Query()
	query.Set("host", strings.Join(hosts, ","))
	query.Set("port", strings.Join(ports, ","))
	u.Host, u.RawQuery = "", query.Encode()
	return u.String()
}
