package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments by which the headings of a page are linked to, as GitHub makes them.
func anchors(text string) map[string]bool {
	list := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		list[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return list
}

// inPackage finds the package that a comment names.
var inPackage = regexp.MustCompile(`\bpackage\s+(\w+)`)

// A reader of pkg.go.dev who has only the public packages cannot open an internal one there.
func TestNoPublicPackageSendsItsReaderToAnInternalOne(t *testing.T) {
	t.Parallel()
	public, internal, comments := map[string]bool{}, map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		name := filepath.Base(filepath.Dir(path))
		if strings.Contains(path, "/internal/") {
			internal[name] = true
			return nil
		}
		public[name] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			comments[path] += group.Text()
		}
		return nil
	})
	if err != nil || len(internal) == 0 || len(public) == 0 {
		t.Fatal(internal, public, err)
	}
	for path, text := range comments {
		for _, m := range inPackage.FindAllStringSubmatch(text, -1) {
			if internal[m[1]] && !public[m[1]] {
				t.Errorf("%s names package %s, which is internal", path, m[1])
			}
		}
	}
}

func TestEveryLinkOfAPageLeadsToAFileAndAHeading(t *testing.T) {
	t.Parallel()
	found := 0
	for _, pattern := range []string{"*.md", "../*.md", "../bench/*.md", "../examples/*/*.md"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range list {
			for _, m := range link.FindAllStringSubmatch(readPage(t, page), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				found++
				path, fragment, _ := strings.Cut(m[1], "#")
				target := filepath.Join(filepath.Dir(page), path)
				if path == "" {
					target = page
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s links to %s: %v", page, m[1], err)
					continue
				}
				if fragment != "" && !anchors(readPage(t, target))[fragment] {
					t.Errorf("%s links to %s, and there is no such heading", page, m[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d links were found", found)
	}
}

// A reader comes from a question to its page in one step.
func TestTheFirstPageOfDocsLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	first := readPage(t, "README.md")
	list, err := filepath.Glob("*.md")
	if err != nil || len(list) < 40 {
		t.Fatalf("%d pages: %v", len(list), err)
	}
	for _, page := range list {
		if page != "README.md" && !strings.Contains(first, "]("+page) {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}
