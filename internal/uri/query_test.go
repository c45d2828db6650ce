package uri

import (
	"maps"
	"net/url"
	"testing"
)

func TestEachParameterIsKnownAndOccursOnce(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]map[string]string{"": {}, "a=1": {"a": "1"}, "b=%3B&a=%25": {"a": "%", "b": ";"}} {
		got, err := Query(&url.URL{RawQuery: query}, "a", "b")
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", query, got, err, want)
		}
	}
	for query, want := range map[string]string{
		"d=1&c=2": `unknown parameter "c"; there are a and b`,
		"A=1":     `unknown parameter "A"; there are a and b`,
		"a=":      "give parameter a once, with a value",
		"a":       "give parameter a once, with a value",
		"a=1&a=2": "give parameter a once, with a value",
		"a=1;b=2": "the parameters cannot be read; write % as %25 and ; as %3B",
		"a=%":     "the parameters cannot be read; write % as %25 and ; as %3B",
	} {
		if got, err := Query(&url.URL{RawQuery: query}, "a", "b"); err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v, want %s", query, got, err, want)
		}
	}
	want := `unknown parameter "b"; there is a`
	if _, err := Query(&url.URL{RawQuery: "b=1"}, "a"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
