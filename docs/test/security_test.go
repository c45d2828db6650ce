package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testNames returns the tests of the tree.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared, names := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for _, m := range declared.FindAllStringSubmatch(readPage(t, path), -1) {
			names[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestEachClaimOfSECURITYNamesTheTestThatHoldsIt(t *testing.T) {
	t.Parallel()
	names, claims := testNames(t), 0
	named := regexp.MustCompile("`(Test\\w+)`")
	for line := range strings.Lines(readPage(t, "../SECURITY.md")) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.Contains(line, "| held by |") {
			continue
		}
		claims++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test holds: %s", line)
		}
		for _, m := range tests {
			if !names[m[1]] {
				t.Errorf("there is no %s, which holds: %s", m[1], line)
			}
		}
	}
	if claims < 30 {
		t.Errorf("only %d claims were found", claims)
	}
}
