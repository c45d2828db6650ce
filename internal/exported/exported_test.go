// Package exported has a list of the names that packages export. A release freezes them.
package exported

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write names.txt")

// most is how many names a package exports at most, without methods and fields.
var most = map[string]int{"jobs": 95, "slots": 35, "sql": 40}

// apart are folders whose packages no other module imports.
var apart = []string{"bench", "docs", "examples", "internal", "testdata", "node_modules"}

func TestAPackageExportsTheListedNamesAndNoMore(t *testing.T) {
	t.Parallel()
	var listed strings.Builder
	for _, dir := range packages(t, filepath.Join("..", "..")) {
		names := namesOf(t, filepath.Join("..", "..", dir))
		own := 0
		for _, name := range names {
			if !strings.Contains(name, ".") {
				own++
			}
			fmt.Fprintf(&listed, "%s.%s\n", dir, name)
		}
		if limit := most[dir]; limit > 0 && own > limit {
			t.Errorf("package %s exports %d names: at most %d", dir, own, limit)
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
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(listed.String(), "\n")); diff != "" {
		t.Errorf("names.txt lists other names: does an application need what is new? "+
			"Then run the test with -update. (-listed +exported):\n%s", diff)
	}
}

// packages returns the folders below root whose packages other modules may import, sorted.
func packages(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == root {
			return err
		}
		_, noModule := os.Stat(filepath.Join(path, "go.mod"))
		if strings.HasPrefix(entry.Name(), ".") || slices.Contains(apart, entry.Name()) || noModule == nil {
			return fs.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err == nil && len(sources(t, path)) > 0 {
			dirs = append(dirs, filepath.ToSlash(dir))
		}
		return err
	})
	if err != nil || len(dirs) < 20 {
		t.Fatalf("only %d packages are read: %v", len(dirs), err)
	}
	return dirs
}

// sources returns the files of the package in a folder, without its tests.
func sources(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// namesOf returns the exported names of the package in a folder, sorted. The methods and fields of a type have its name
// in front.
func namesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, file := range sources(t, dir) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			names = append(names, declared(decl)...)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		of, member, _ := strings.Cut(name, ".")
		return !ast.IsExported(of) || member != "" && !ast.IsExported(member)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// declared returns the names that a declaration adds to its package.
func declared(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{nameOf(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
				for _, member := range members(s.Type) {
					names = append(names, s.Name.Name+"."+member)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// members returns the fields of a struct and the methods of an interface, and what is embedded in either.
func members(of ast.Expr) (names []string) {
	var list *ast.FieldList
	switch t := of.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(field.Names) == 0 {
			names = append(names, nameOf(field.Type))
		}
	}
	return names
}

// nameOf returns the name of a type without its package, pointer and parameters. Another expression has none.
func nameOf(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.StarExpr:
		return nameOf(t.X)
	case *ast.IndexExpr:
		return nameOf(t.X)
	case *ast.IndexListExpr:
		return nameOf(t.X)
	}
	return ""
}
