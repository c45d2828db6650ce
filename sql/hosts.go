package sql

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/lib/pq"
)

// ServerOf returns which server, or servers, a database URL leads to, so that two URLs can be compared.
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

// withPorts writes the ports of a URL of several servers, as libpq takes it (postgres://a:5432,b:5433/shop), where the
// driver looks for them. Any other it returns as it is.
func withPorts(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || !strings.Contains(u.Host, ",") || !strings.Contains(u.Host, ":") {
		return raw
	}
	var hosts, ports []string
	for _, address := range strings.Split(u.Host, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil { // it names none
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
