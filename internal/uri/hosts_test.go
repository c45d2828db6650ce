package uri

import (
	"slices"
	"testing"
)

func TestEachHostOfAURLHasAPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"kafka://a/t":                      {"a:1"},
		"kafka://a:9094,b/t":               {"a:9094", "b:1"},
		"kafka://a,b:9094?c=d,e":           {"a:1", "b:9094"},
		"kafka://me:p%2Cw@a:2,[::1],b:3/t": {"a:2", "[::1]:1", "b:3"},
		"kafka://me:p,w@a/t,u":             {"a:1"},
		"kafka://a,,b/t":                   nil,
		"kafka://a:x,b/t":                  nil,
		"kafka:///t":                       nil,
		"outbox:":                          nil,
	} {
		u, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, ok := Hosts(u, "1"); !slices.Equal(got, want) || ok != (want != nil) {
			t.Errorf("%s has the hosts %q, %t, want %q", text, got, ok, want)
		}
	}
}
