// Package exported has a list of the names that packages export. A release freezes them.
package exported

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write names.txt")

// most is how many names a package exports at most, without methods and fields.
var most = map[string]int{"jobs": 95, "slots": 35, "sql": 40}

func TestAPackageExportsTheListedNamesAndNoMore(t *testing.T) {
	t.Parallel()
	var listed strings.Builder
	for _, dir := range []string{"jobs", "slots", "sql"} {
		names := namesOf(t, filepath.Join("..", "..", dir))
		if limit := most[dir]; limit > 0 && len(names) > limit {
			t.Errorf("package %s exports %d names: at most %d", dir, len(names), limit)
		}
		for _, name := range names {
			fmt.Fprintf(&listed, "%s.%s\n", dir, name)
		}
	}
	if *update {
		if err := os.WriteFile("names.txt", []byte(listed.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("names.txt")
	if err != nil {
		t.Fatal(err)
	}
	if listed.String() != string(want) {
		t.Error("names.txt lists other names: does an application need what is new? Then run the test with -update")
	}
}

// namesOf returns the exported names of the package in a folder, sorted.
func namesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			for _, name := range declared(decl) {
				if name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// declared returns the names that a declaration adds to its package.
func declared(decl ast.Decl) (names []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name)
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			}
		}
	}
	return names
}
