package action

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAreTakenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-03-01 13:15": "2026-03-01T13:15:00Z", "2026-03-01T13:15": "2026-03-01T13:15:00Z", "2026-03-01T14:15:00+01:00": "2026-03-01T13:15:00Z",
		"2026-03-01": "2026-03-01T00:00:00Z", " 2h ": "2026-03-01T10:00:00Z", "1d": "2026-02-28T12:00:00Z", "": "",
		"tomorrow": "is no time", "-2h": "is no time", "25:00": "is no time",
	} {
		in := &Input{Values: map[string][]string{"at": {text}}, Now: now, Wrong: map[string]string{}}
		at := in.past("at")
		got := in.Wrong["at"]
		if !at.IsZero() {
			got = at.Format(time.RFC3339Nano)
			if in.Text("at") != got {
				t.Errorf("%q is confirmed as %q", text, in.Text("at"))
			}
		}
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
