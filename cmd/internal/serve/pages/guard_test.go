package pages

import (
	"testing"
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

// A browser sends the value of a field back.
func TestValuesOfFieldsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for html, want := range map[string]string{
		"<input value=\"a\u200db\" title=\"c\u200dd\">e\u200df":             "<input value=\"a\u200db\" title=\"c\uFFFDd\">e\uFFFDf",
		"<input value=\"\u200d\"> value=&#34;\u200d&#34; <i value=\"\u200d": "<input value=\"\u200d\"> value=&#34;\uFFFD&#34; <i value=\"\uFFFD",
		"<option value=\"\u200d\">\u200d</option>":                          "<option value=\"\u200d\">\uFFFD</option>",
	} {
		if got := escapeControls(html); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
