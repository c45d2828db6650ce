package rule

import (
	"testing"
	"time"

	"github.com/prescient-go/prescient/slots/grid"
)

// In Berlin clocks skip from 02:00 to 03:00 on 2026-03-29, and go back from 03:00 to 02:00 on 2026-10-25.
func TestADigestIsSentOnceADayAlsoWhenClocksChange(t *testing.T) {
	t.Parallel()
	c, err := clocksOf("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ digest, from, want string }{
		{"02:30", "2026-03-28T00:00:00Z", "03-28 01:30, 03-29 01:00, 03-30 00:30"}, // at 03:00, since 02:30 is skipped
		{"02:30", "2026-10-24T00:00:00Z", "10-24 00:30, 10-25 00:30, 10-26 01:30"}, // at the first of two
		{"00:00", "2026-10-24T12:00:00Z", "10-24 22:00, 10-25 23:00, 10-26 23:00"},
		{"09:00", "2026-03-28T12:00:00Z", "03-29 07:00, 03-30 07:00, 03-31 07:00"},
		{"1h", "2026-03-29T00:00:00Z", "03-29 01:00, 03-29 02:00, 03-29 03:00"},
		{"12h", "2026-10-24T12:00:00Z", "10-25 00:00, 10-25 12:00, 10-26 00:00"},
	} {
		d, err := parseDigest(test.digest)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, test.from)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for n := range 3 {
			if n > 0 {
				got += ", "
			}
			at = d.after(at, grid.Grid{}, c).UTC()
			got += at.Format("01-02 15:04")
		}
		if got != test.want {
			t.Errorf("%s from %s: %s, want %s", test.digest, test.from, got, test.want)
		}
	}
}
