package uri

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// hostList finds a host that is a list with commas, as brokers and databases have it.
var hostList = regexp.MustCompile(`^[^:/?#]+://(?:[^/?#]*@)?([^/?#@]*,[^/?#@]*)(?:[/?#]|$)`)

// Parse is url.Parse that also takes a list of hosts, which becomes the Host unchanged. url.Parse takes the text after
// the first port, as in a:9092,b, for the port.
func Parse(text string) (*url.URL, error) {
	span := hostList.FindStringSubmatchIndex(text)
	if span == nil {
		return url.Parse(text)
	}
	u, err := url.Parse(text[:span[2]] + "hosts" + text[span[3]:])
	if err == nil {
		u.Host = text[span[2]:span[3]]
	}
	return u, err
}

// Hosts returns each host of a URL with its port. A host without a port gets the given one. It returns false if the URL
// has no host, or a host is not valid.
func Hosts(u *url.URL, port string) (list []string, ok bool) {
	for host := range strings.SplitSeq(u.Host, ",") {
		one, err := url.Parse("//" + host)
		if err != nil || one.Hostname() == "" {
			return nil, false
		}
		list = append(list, net.JoinHostPort(one.Hostname(), cmp.Or(one.Port(), port)))
	}
	return list, true
}
