package pages

import (
	"io/fs"
	"regexp"
	"testing"
)

// address is an attribute that a browser asks for, and what it begins with.
var address = regexp.MustCompile(`\b(?:href|src|action|formaction|data-live)="([^"#][^" }]*)`)

func TestNoTemplateWritesAnAddressByHand(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		text, err := fs.ReadFile(templateFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range address.FindAllSubmatch(text, -1) {
			found++
			if begins := string(m[1]); begins != "{{url" && begins != "{{.Top" {
				t.Errorf("%s: %s is no link of {{url}}, so it leads away from the pages of its store", name, m[0])
			}
		}
	}
	if found < 50 {
		t.Errorf("%d addresses are looked at", found)
	}
}
