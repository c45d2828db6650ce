package web

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnlyNamedProxiesAreBelieved(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
	for name, test := range map[string]struct {
		peer      string
		forwarded []string
		networks  []netip.Prefix
		want      string
	}{
		"no network is named":             {"127.0.0.1:1", []string{"192.0.2.1"}, nil, "127.0.0.1"},
		"a peer of another network":       {"198.51.100.1:1", []string{"192.0.2.1"}, networks, "198.51.100.1"},
		"a proxy":                         {"10.1.2.3:1", []string{"192.0.2.1"}, networks, "192.0.2.1"},
		"a proxy that says nothing":       {"10.1.2.3:1", nil, networks, "10.1.2.3"},
		"what the client itself has said": {"10.1.2.3:1", []string{"203.0.113.9, 192.0.2.1"}, networks, "192.0.2.1"},
		"two proxies":                     {"10.1.2.3:1", []string{"203.0.113.9, 192.0.2.1, 10.9.9.9"}, networks, "192.0.2.1"},
		"two headers":                     {"10.1.2.3:1", []string{"192.0.2.1", "10.9.9.9"}, networks, "192.0.2.1"},
		"no address":                      {"10.1.2.3:1", []string{"192.0.2.1, unknown"}, networks, "10.1.2.3"},
		"very long":                       {"10.1.2.3:1", []string{strings.Repeat("9", 60_000)}, networks, "10.1.2.3"},
		"a zone":                          {"10.1.2.3:1", []string{"fe80::1%" + strings.Repeat("eth", 1000)}, networks, "fe80::1"},
		"a zone of the peer":              {"[fe80::1%eth0]:1", nil, networks, "fe80::1"},
		"a proxy by IPv6":                 {"[fd00::1]:1", []string{"2001:db8::1"}, networks, "2001:db8::1"},
		"IPv4 written as IPv6":            {"[::ffff:10.1.2.3]:1", []string{"::ffff:192.0.2.1"}, networks, "192.0.2.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = test.peer, test.forwarded
		if got := ProxiedAddress(test.networks)(r).String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestWrongTokensAreCountedAndLoggedAndTheLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, err := NewNamedKeys([]string{"ops:0123456789abcdef"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		access := NewAccess(keys, nil, slog.New(slog.NewTextHandler(&log, nil))).LockingOut()
		send := func(n int, token string) (Who, bool, error) {
			r := httptest.NewRequest(http.MethodGet, "/schedules", nil)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", n)
			r.Header.Set("Authorization", "Bearer "+token)
			return access.Who(r)
		}
		if who, known, err := send(1, "0123456789abcdef"); !known || err != nil || who != (Who{Name: "ops", Address: "192.0.2.1", MayRead: true, MayChange: true, Token: 1}) || log.Len() > 0 {
			t.Errorf("%+v, %v, %v\n%s", who, known, err, &log)
		}
		for n := range 200 {
			if _, known, err := send(n, "guessed-guessed-guessed"); known || err != nil {
				t.Fatalf("%v, %v", known, err)
			}
		}
		if n := strings.Count(log.String(), "\n"); access.Failed() != 200 || n != maxLines {
			t.Errorf("%d failed, and %d were logged", access.Failed(), n)
		}
		if text := log.String(); strings.Contains(text, "guessed") || !strings.Contains(text, "address=192.0.2.7") {
			t.Error(text)
		}
		time.Sleep(2 * linesFor)
		log.Reset()
		_, _, _ = send(201, "guessed-guessed-guessed")
		if want := fmt.Sprintf("not_logged_before=%d", 200-maxLines); !strings.Contains(log.String(), want) {
			t.Errorf("%s lacks %s", &log, want)
		}
		for range 5 {
			_, _, _ = send(202, "guessed-guessed-guessed")
		}
		_, known, err := send(202, "0123456789abcdef")
		if problem, is := err.(*Problem); known || !is || problem.Status != http.StatusTooManyRequests || access.Failed() != 207 { //nolint:errorlint // it is one
			t.Errorf("%v, %v, %d failed", known, err, access.Failed())
		}
		r := httptest.NewRequest(http.MethodGet, "/schedules", nil)
		r.RemoteAddr = "192.0.2.202:1"
		r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		door := access.Door()
		if _, known, err := door.Who(r); !known || err != nil || door.Failed() != 207 {
			t.Errorf("at another door: %v, %v, %d failed", known, err, door.Failed())
		}
	})
}
