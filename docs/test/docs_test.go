package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// The tests run in the folder of the pages, so that a reader who opens it sees no tests.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

// ends finds a command line that ends units of systemd, with its options and units.
var ends = regexp.MustCompile(`systemctl (?:disable|stop)((?: +[\w.@-]+)+)`)

// systemctl returns at the first unit that is not installed, and then ends none.
func TestNoPageEndsTwoUnitsInOneLine(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		for _, m := range ends.FindAllStringSubmatch(readPage(t, page), -1) {
			units := slices.DeleteFunc(strings.Fields(m[1]), func(word string) bool { return strings.HasPrefix(word, "-") })
			if found++; len(units) > 1 {
				t.Errorf("%s: %q names %q", page, m[0], units)
			}
		}
	}
	if found == 0 {
		t.Error("no page ends a unit")
	}
}

// destroys finds a command line whose failure leaves an empty crontab, or an empty file of the machine.
var destroys = regexp.MustCompile(`\|\s*(sudo )?(crontab\s+-|tee\s+/)|[^>&=-]>\s*/(etc|usr|lib|var)/`)

func TestNothingTellsAnybodyToDestroyWhatIsThereWhenACommandFails(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"orders install crontab | crontab -": true, "orders install crontab > /etc/cron.d/orders": true,
		"orders install systemd | sudo tee /etc/x": true, "orders install crontab >> /etc/crontab": false,
		"orders migrate roles --dry-run > roles.sql": false, "`crontab` | `systemd`": false,
	} {
		if destroys.MatchString(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	read := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (name == ".git" || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		case strings.HasSuffix(name, ".md") || strings.HasPrefix(path, "../deploy/"):
		case !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".tmpl") && !strings.HasSuffix(name, ".html"):
			return nil
		}
		data, err := os.ReadFile(path)
		read++
		for line := range strings.Lines(string(data)) {
			if destroys.MatchString(line) {
				t.Errorf("%s: %s", path, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || read < 100 {
		t.Errorf("%d files were read: %v", read, err)
	}
}

// What stands in quotes is a text, and no object.
func TestThePayloadsOfThePagesAreNoTexts(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, b := range fenced(t, page) {
			if quoted := regexp.MustCompile(`payload: ['"]\{.*`).FindString(b.text); b.language == "yaml" && quoted != "" {
				t.Errorf("%s:%d: %s", page, b.place, quoted)
			}
		}
	}
}
