package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/forecast"
	"github.com/prescient-go/prescient/slots/health"
)

// doctorName finds the names of doctor's findings in its source.
var doctorName = regexp.MustCompile(`\{"([a-z]+)", [a-zA-Z]+\}|Name(?::|, err =| =) "([a-z_]+)"|ToDo\(\s*"([a-z_]+)"`)

// findingSources are the directories whose code makes findings of doctor.
var findingSources = []string{"../cmd/internal/doctor", "../cmd/internal/doctorcmd"}

func TestThePageOfTroublesHasEveryConditionAndEveryFinding(t *testing.T) {
	t.Parallel()
	page := readPage(t, "troubleshooting.md")
	section := func(heading string) map[string]bool {
		_, text, _ := strings.Cut(page, "\n## "+heading+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		rows := map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_-]+)` \\|").FindAllStringSubmatch(text, -1) {
			rows[m[1]] = true
		}
		return rows
	}
	compare := func(heading string, want []string) {
		rows := section(heading)
		slices.Sort(want)
		for _, name := range slices.Compact(want) {
			if !rows[name] {
				t.Errorf("%s: there is no row for %s", heading, name)
			}
			delete(rows, name)
		}
		for name := range rows {
			t.Errorf("%s: there is no %s any more", heading, name)
		}
	}
	compare("Conditions of `status --check`", health.Names())
	compare("Conditions of `plan forecast --check`", []string{string(forecast.TooLong), string(forecast.SLA), string(forecast.Deadline)})
	var names []string
	for _, directory := range findingSources {
		sources, err := filepath.Glob(directory + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		before := len(names)
		for _, path := range sources {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range doctorName.FindAllStringSubmatch(string(source), -1) {
				names = append(names, m[1]+m[2]+m[3])
			}
		}
		if len(names) == before {
			t.Errorf("%s makes no finding any more", directory)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only these findings are known: %v", names)
	}
	compare("Findings of `doctor`", names)
}
