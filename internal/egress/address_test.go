package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestASpecialAddressIsRefusedUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	refused := map[string]string{ // an address, and a prefix that has it
		"0.0.0.0":          "0.0.0.0/8",
		"10.1.2.3":         "10.0.0.0/8",
		"100.100.100.200":  "100.64.0.0/10", // metadata of Alibaba Cloud
		"127.0.0.1":        "127.0.0.1/32",
		"127.8.8.8":        "127.0.0.0/8",
		"168.63.129.16":    "168.63.129.16/32", // Azure
		"169.254.169.254":  "169.254.0.0/16",   // metadata of most clouds
		"172.31.255.255":   "172.16.0.0/12",
		"192.0.0.192":      "192.0.0.0/24", // metadata of Oracle Cloud
		"192.168.0.1":      "192.168.0.0/16",
		"198.18.0.1":       "198.18.0.0/15",
		"224.0.0.1":        "224.0.0.0/4",
		"255.255.255.255":  "240.0.0.0/4",
		"::":               "::/128",
		"::1":              "::1/128",
		"::ffff:10.0.0.1":  "::ffff:0:0/96",
		"::7f00:1":         "::/96",
		"64:ff9b::7f00:1":  "64:ff9b::/96",
		"64:ff9b:1::a00:1": "64:ff9b:1::/48",
		"100::1":           "100::/64",
		"2001:0:7f00:1::":  "2001::/32",
		"2001:db8::1":      "2001:db8::/32",
		"2002:7f00:1::":    "2002::/16",
		"3fff::1":          "3fff::/20",
		"fd00:ec2::254":    "fc00::/7", // metadata of AWS
		"fe80::1":          "fe80::/10",
		"fec0::1":          "fec0::/10",
		"ff02::1":          "ff00::/8",
	}
	for text, prefix := range refused {
		network, address := endpoint(netip.MustParseAddr(text))
		for _, others := range [][]netip.Prefix{nil, prefixes("11.0.0.0/8", "2600::/12")} {
			if err := control(others)(network, address, nil); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s, allowed is %v: %v", text, others, err)
			}
		}
		if err := control(prefixes("9.9.9.9/32", prefix))(network, address, nil); err != nil {
			t.Errorf("%s although %s is allowed: %v", text, prefix, err)
		}
	}
	for _, text := range []string{"1.1.1.1", "93.184.216.34", "100.128.0.1", "172.32.0.1", "168.63.129.17", "2606:4700::1111", "2a00:1450::1"} {
		network, address := endpoint(netip.MustParseAddr(text))
		if err := control(nil)(network, address, nil); err != nil {
			t.Errorf("%s, a public address: %v", text, err)
		}
	}
}

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func endpoint(addr netip.Addr) (network, address string) {
	network = "tcp6"
	if addr.Is4() {
		network = "tcp4"
	}
	return network, netip.AddrPortFrom(addr, 8443).String()
}

func TestNoProxyIsUsed(t *testing.T) {
	t.Parallel()
	if newTransport(Config{}).Proxy != nil {
		t.Error("the address that is checked would be the proxy's own")
	}
}

func TestOnlyAnHTTPURLWithOneHostIsSentTo(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://example.com": true, "http://example.com:8080/a?b=c": true, "https://me:pw@[2600::1]:1/": true,
		"https:///a": false, "https:a": false, "//example.com": false, "ftp://example.com": false, "file:///etc/passwd": false,
		"https://:443/": false, "https://a,b/": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckURL(u); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestARedirectDoesNotLeaveHTTPS(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent unencrypted") }))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/plain" {
			http.Redirect(w, req, plain.URL, http.StatusTemporaryRedirect)
		}
	}))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	client, err := New(Config{Allow: prefixes("127.0.0.0/8", "::1/128")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	client.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	to, err := url.Parse(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Post(t.Context(), to, Message{ID: "1"}); err != nil {
		t.Error(err)
	}
	to.Path = "/plain"
	_, err = client.Post(t.Context(), to, Message{ID: "1"})
	if !errors.Is(err, errRedirect) || !strings.Contains(err.Error(), "would leave https") {
		t.Error(err)
	}
}
