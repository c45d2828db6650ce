package spoken

import (
	"slices"
	"testing"
	"time"
)

func TestDurationsAreSaidAsPeopleSayThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0s": "0s", "1234us": "1.23ms", "1234567us": "1.235s", "754321ms": "12m34s", "10m": "10m", "27h32m19s": "27h32m", "24h": "24h",
		"47h59m59s": "48h", "49h": "2 days", "1416h": "59 days", "1464h": "2 months", "9600h": "13 months", "27265h32m19s": "3 years",
		"43800h": "5 years", "-90s": "-1m30s",
	} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Duration(d); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestSomeNamesTheFirstOfMany(t *testing.T) {
	t.Parallel()
	names := slices.Repeat([]string{"order"}, 20_000)
	if got := Some(names); len(got) != 21 || got[20] != "and 19980 more" {
		t.Errorf("%d, the last %q", len(got), got[len(got)-1])
	}
	if got := Some(names[:20]); len(got) != 20 || got[19] != "order" {
		t.Errorf("%d, the last %q", len(got), got[len(got)-1])
	}
}
