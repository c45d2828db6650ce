package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write comments.json")

func TestTheDocumentIsValidAndDescribesEachParameter(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(document())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	for _, r := range slices.Concat(new(api).storeRoutes(), new(api).routes()) {
		for _, name := range r.query {
			if parameters[name] == nil {
				t.Errorf("%s: describe the parameter %s", r.path, name)
			}
		}
	}
}

// The served document has the paths that clients ask for.
func TestTheDocumentNamesTheBaseOfItsPaths(t *testing.T) {
	t.Parallel()
	a := &api{Config: Config{Base: "/stores/shop"}}
	v, err := a.describe().handle(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if url := v.(object)["servers"].([]object)[0]["url"]; url != "/stores/shop"+Prefix {
		t.Error(url)
	}
}

func TestTheDescriptionsAreTheCommentsOfTheCode(t *testing.T) {
	t.Parallel()
	s := &schemas{all: object{}, comments: parsed(t), used: map[string]string{}}
	s.document()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s.used); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("comments.json", text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !maps.Equal(s.used, comments()) {
		t.Error("write comments.json: go test ./cmd/internal/serve/api -run CommentsOfTheCode -update")
	}
}

// parsed returns the comments of the types, and of their fields, in the packages whose types are answered.
func parsed(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"../board", "../../view", "../../../../internal/web", "../../../../slots/ledger", "../../../../slots/health", "../../../../slots/forecast", "../../../../jobs/admin", "../../../../jobs/event/outbox", "../../../../jobs/rule/rulestore", "."} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				d, is := n.(*ast.GenDecl)
				if !is || d.Tok != token.TYPE {
					return true
				}
				spec := d.Specs[0].(*ast.TypeSpec)
				structure, is := spec.Type.(*ast.StructType)
				if !is {
					return true
				}
				if says := sentence(d.Doc, ""); says != "" {
					all[file.Name.Name+"."+spec.Name.Name] = strings.ToUpper(says[:1]) + says[1:]
				}
				for _, f := range structure.Fields.List {
					for _, name := range f.Names {
						all[file.Name.Name+"."+spec.Name.Name+"."+name.Name] = sentence(f.Doc, sentence(f.Comment, ""))
					}
				}
				return true
			})
		}
	}
	return all
}

// sentence is a comment in one line.
func sentence(c *ast.CommentGroup, fallback string) string {
	if c == nil {
		return fallback
	}
	return strings.Join(strings.Fields(c.Text()), " ")
}
