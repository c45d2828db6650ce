package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// changelogLines is the most that a reader of a version reads.
const changelogLines = 60

var (
	versionHead = regexp.MustCompile(`^\[(\d+\.\d+\.\d+)\] - (unreleased|\d{4}-\d\d-\d\d)$`)
	kinds       = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
)

func TestTheChangelogHasAShortSectionForEachVersion(t *testing.T) {
	t.Parallel()
	text := readPage(t, "../CHANGELOG.md")
	for _, fault := range faultsOf(text) {
		t.Errorf("CHANGELOG.md:%s", fault)
	}
	sections := strings.Split(text, "\n## ")[1:]
	if len(sections) == 0 {
		t.Fatal("there is no version")
	}
	for i, section := range sections {
		head, body, _ := strings.Cut(section, "\n")
		m := versionHead.FindStringSubmatch(head)
		if m == nil {
			t.Errorf("%q is no version with a day or unreleased", head)
			continue
		}
		if i > 0 && m[2] == "unreleased" {
			t.Errorf("%s is not the newest version, and has no day", m[1])
		}
		if n := strings.Count(section, "\n"); n > changelogLines {
			t.Errorf("%s has %d lines, and may have %d", m[1], n, changelogLines)
		}
		for _, part := range strings.Split("\n"+body, "\n### ")[1:] {
			kind, _, _ := strings.Cut(part, "\n")
			if i < len(sections)-1 && !slices.Contains(kinds, kind) {
				t.Errorf("%s has a part %q: the parts are %q", m[1], kind, kinds)
			}
		}
	}
}

// Readers copy the names of files, and the chart has the version of the release.
func TestTheVersionOfThePagesAndOfTheChartIsThatOfTheChangelog(t *testing.T) {
	t.Parallel()
	_, after, _ := strings.Cut(readPage(t, "../CHANGELOG.md"), "\n## [")
	newest, _, _ := strings.Cut(after, "]")
	const chart = "../cmd/internal/install/chart/Chart.yaml"
	if !strings.Contains(readPage(t, chart), "\nversion: "+newest+"\n") {
		t.Errorf("%s has another version than %s", chart, newest)
	}
	archive, found := regexp.MustCompile(`prescient[_-](\d+\.\d+\.\d+)`), 0
	for _, page := range pages(t) {
		for _, m := range archive.FindAllStringSubmatch(readPage(t, page), -1) {
			if found++; m[1] != newest {
				t.Errorf("%s names %s, and the version is %s", page, m[0], newest)
			}
		}
	}
	if found == 0 {
		t.Error("no page names a file of the release")
	}
}
