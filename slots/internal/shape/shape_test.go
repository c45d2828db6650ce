// Package shape tests the shape of the engine: how large its structs and types may be, and who imports whom.
package shape

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The shape that the engine has. A struct is small; a mutex guards its own struct.
const (
	maxFields  = 12 // of a struct
	maxMethods = 25 // of a type
)

// engine is the folder of package slots.
const engine = "../.."

// values are structs that users fill or read field by field.
var values = []string{"slots.Config", "slots.Result"}

func TestTheEngineKeepsItsShape(t *testing.T) {
	t.Parallel()
	sizes, limits := map[string]int{}, map[string]int{}
	measure := func(limit, n int, what string, args ...any) {
		name := fmt.Sprintf(what, args...)
		sizes[name] += n
		limits[name] = limit
	}
	eachFile(t, func(_ *token.FileSet, file *ast.File) {
		name := file.Name.Name
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && !slices.Contains(values, name+"."+n.Name.Name) {
					measure(maxFields, fields(s), "fields of %s.%s", name, n.Name.Name)
				}
			case *ast.FuncDecl:
				if _, of := receiver(n); of != "" {
					measure(maxMethods, 1, "methods of %s.%s", name, of)
				}
			}
			return true
		})
	})
	maps.DeleteFunc(sizes, func(name string, n int) bool { return n <= limits[name] })
	for name, n := range sizes {
		t.Errorf("divide what has grown: there are %d %s, and at most %d may be", n, name, limits[name])
	}
}

func TestAMutexIsLockedByMethodsOfItsStruct(t *testing.T) {
	t.Parallel()
	eachFile(t, func(fset *token.FileSet, file *ast.File) {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			own, _ := receiver(fn)
			ast.Inspect(fn, func(n ast.Node) bool {
				lock, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Lock", "TryLock", "RLock", "Unlock", "RUnlock"}, lock.Sel.Name) {
					return true
				}
				mutex, ok := lock.X.(*ast.SelectorExpr)
				if of, isName := mutex.X.(*ast.Ident); ok && (!isName || of.Name != own) {
					t.Errorf("%s: %s takes a mutex of another struct", fset.Position(n.Pos()), fn.Name.Name)
				}
				return true
			})
		}
	})
}

// eachFile goes through the files of the engine.
func eachFile(t *testing.T, look func(fset *token.FileSet, file *ast.File)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(engine, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(engine, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.Contains(path, "slottest") { // which only tests import
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		look(fset, file)
	}
}

func fields(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// receiver returns the name and the type of the receiver of a method.
func receiver(fn *ast.FuncDecl) (name, of string) {
	if fn.Recv == nil {
		return "", ""
	}
	field := fn.Recv.List[0]
	kind := field.Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if ident, ok := kind.(*ast.Ident); ok {
		of = ident.Name
	}
	if len(field.Names) > 0 {
		name = field.Names[0].Name
	}
	return name, of
}

// The table says what a reader may expect, and the linter holds it.
func TestTheTableOfImportsIsWhatThePackagesImportAndTheLinterAllows(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join(engine, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "# Who may import whom")
	table := map[string][]string{}
	var name string
	for _, line := range regexp.MustCompile(`(?m)^//\t(\w*) +([^;\n]+)`).FindAllStringSubmatch(list, -1) {
		if line[1] != "" { // a line without a name goes on with the one before
			name = line[1]
		}
		imported := strings.FieldsFunc(strings.TrimPrefix(line[2], "nothing"), func(r rune) bool { return r == ',' || r == ' ' })
		table[name] = sorted(append(table[name], imported...))
	}
	imports := map[string][]string{}
	eachFile(t, func(_ *token.FileSet, file *ast.File) {
		if name := file.Name.Name; name != "slots" {
			for _, spec := range file.Imports {
				if path, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); ours {
					imports[name] = append(imports[name], strings.TrimPrefix(path, "slots/internal/"))
				}
			}
			imports[name] = sorted(imports[name])
		}
	})
	if diff := cmp.Diff(imports, table); diff != "" {
		t.Errorf("imports, and the table (-imports +table):\n%s", diff)
	}
	linter, err := os.ReadFile(filepath.Join(engine, "..", ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string][]string{}
	for _, rule := range strings.Split(string(linter), "        engine-")[1:] {
		name, body, _ := strings.Cut(rule, ":\n")
		body, _, _ = strings.Cut(body, "\n    forbidigo:")
		var list []string
		for _, path := range regexp.MustCompile(`(?m)^ +- `+regexp.QuoteMeta(module)+`(\S+)\$$`).FindAllStringSubmatch(body, -1) {
			list = append(list, strings.TrimPrefix(path[1], "slots/internal/"))
		}
		allowed[name] = sorted(list)
	}
	if diff := cmp.Diff(allowed, table); diff != "" {
		t.Errorf("what the linter allows, and the table (-linter +table):\n%s", diff)
	}
}

// module is the prefix of the packages of this module.
const module = "github.com/prescient-go/prescient/"

// sorted returns the different elements of a list in order.
func sorted(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return slices.Compact(list)
}
