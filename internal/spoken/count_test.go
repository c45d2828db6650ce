package spoken

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestACountHasTheNounThatGoesWithIt(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 rows are", 1: "1 row is", 2: "2 rows are", -1: "-1 rows are"} {
		if got := Count(n, "row is", "rows are"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// Several packages once had a helper of their own, and other texts said "1 rows".
func TestCountsAreSpokenHereAlone(t *testing.T) {
	t.Parallel()
	helper := regexp.MustCompile(`return ("1 |fmt\.Sprintf\("1 )`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if found := helper.Find(text); found != nil {
			t.Errorf("%s says a count itself (%s): use Count", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
