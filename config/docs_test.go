package config

import (
	"os"
	"regexp"
	"testing"
)

func TestThePageOfSettingsHasEachWithItsDefault(t *testing.T) {
	text, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `?([^|`]+?)`? \\|").FindAllStringSubmatch(string(text), -1) {
		listed[m[1]] = m[2]
	}
	defaults := Default()
	for key, field := range fields(&defaults) {
		want := show(field)
		if want == "" {
			want = "empty"
		}
		if listed[key] != want {
			t.Errorf("docs/settings.md has %q as the default of %s, which is %q", listed[key], key, want)
		}
		delete(listed, key)
	}
	for key := range listed {
		t.Errorf("docs/settings.md has %s, which is no setting", key)
	}
}
