package sql_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the callers of statements into their files")

// constant matches a line of internal/pg/statements.go: the constant of a statement, and its file.
var constant = regexp.MustCompile(`(?m)^\t(\w+)\s+= file\("(\w+)"\)`)

func TestEveryStatementSaysWhoCallsIt(t *testing.T) {
	t.Parallel()
	callers := callersOfStatements(t)
	source, err := os.ReadFile("../internal/pg/statements.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range constant.FindAllStringSubmatch(string(source), -1) {
		name, path := m[1], filepath.Join("statements", m[2]+".sql")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(callers[name]) == 0 {
			t.Errorf("%s: nothing uses it", path)
			continue
		}
		want := withCallers(string(text), slices.Sorted(maps.Keys(callers[name])))
		if want == string(text) {
			continue
		}
		if !*update {
			t.Errorf("%s does not name its callers: run the test with -update\n%s", path, want)
		} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// withCallers ends the comment of a statement with its callers, one a line.
func withCallers(text string, callers []string) string {
	var comment, rest []string
	for line := range strings.Lines(text) {
		if rest == nil && strings.HasPrefix(line, "--") {
			if !strings.HasPrefix(line, "-- Called by ") {
				comment = append(comment, line)
			}
		} else {
			rest = append(rest, line)
		}
	}
	for _, caller := range callers {
		comment = append(comment, "-- Called by "+caller+".\n")
	}
	return strings.Join(comment, "") + strings.Join(rest, "")
}

// callersOfStatements returns, for each constant of a statement, the functions of this module that
// name it, except tests.
func callersOfStatements(t *testing.T) map[string]map[string]bool {
	callers := map[string]map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "..":
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir // another module
			}
			return nil
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"), path == "../internal/pg/statements.go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("..", filepath.Dir(path))
		for _, decl := range file.Decls {
			caller := filepath.ToSlash(dir) + "." + nameOf(decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				for _, name := range statementsOf(n, dir == "internal/pg") {
					if callers[name] == nil {
						callers[name] = map[string]bool{}
					}
					callers[name][caller] = true
				}
				return true
			})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return callers
}

// statementsOf returns the exported names of package pg in a node. Inside the package, statements
// are used by their method In, or in a list.
func statementsOf(n ast.Node, inside bool) (names []string) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		name, ok := n.X.(*ast.Ident)
		if ok && name.Name == "pg" {
			return []string{n.Sel.Name}
		}
		if ok && inside && n.Sel.Name == "In" {
			return []string{name.Name}
		}
	case *ast.CompositeLit:
		for _, element := range n.Elts {
			if name, ok := element.(*ast.Ident); ok && inside {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// nameOf returns the name of a function with its receiver, or of the first declared variable.
func nameOf(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		receiver := strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")
		receiver, _, _ = strings.Cut(receiver, "[")
		return receiver + "." + d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				return value.Names[0].Name
			}
		}
	}
	return ""
}
