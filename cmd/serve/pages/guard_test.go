package pages

import (
	"strings"
	"testing"
	"time"
)

func TestALogInLeadsBackToThesePagesAlone(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/slot?at=2026-03-01T13:15:00Z": "/slot?at=2026-03-01T13:15:00Z", "/": "/", "": "/",
		"https://evil.example/": "/", "//evil.example/": "/", "///evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/",
		"javascript:alert(1)": "/", "evil": "/", "/%2f/evil": "/", "/\tevil": "/", "http:/evil": "/",
	} {
		if got := (visitors{&site{}}).safeRedirect(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestWhatCannotBeSeenIsShown(t *testing.T) {
	t.Parallel()
	got := escapeControls("a\u202eb\u2066c\u200bd\u0007e\u2028f\u00adg\x7fh\ti\n")
	if got != "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf\uFFFDg\uFFFDh\ti\n" {
		t.Errorf("%q", got)
	}
}

func TestTimesAreTakenAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-03-01 13:15": "2026-03-01T13:15:00Z", "2026-03-01T13:15": "2026-03-01T13:15:00Z", "2026-03-01T14:15:00+01:00": "2026-03-01T13:15:00Z",
		"2026-03-01": "2026-03-01T00:00:00Z", " 2h ": "2026-03-01T10:00:00Z", "1d": "2026-02-28T12:00:00Z", "": "",
		"tomorrow": "is no time", "-2h": "is no time", "25:00": "is no time",
	} {
		in := &input{values: map[string][]string{"at": {text}}, now: now, wrong: map[string]string{}}
		at := in.past("at")
		got := in.wrong["at"]
		if !at.IsZero() {
			got = formatInstant(at)
			if in.text("at") != got {
				t.Errorf("%q is confirmed as %q", text, in.text("at"))
			}
		}
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
