// Package webtest keeps the comments of types for the OpenAPI documents of APIs.
package webtest

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Comments returns the comments of the types, and of their fields, in some directories, as
// web.OpenAPI.Comments has them.
func Comments(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
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

// Keep writes the comments that a document has used to comments.json, if update is set. Otherwise it fails the
// test unless the binary has them.
func Keep(t *testing.T, update bool, used, has map[string]string) {
	t.Helper()
	if !update {
		if !maps.Equal(used, has) {
			t.Errorf("write comments.json: go test -run %s -update, in this package", t.Name())
		}
		return
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(used)
	if err == nil {
		err = os.WriteFile("comments.json", text.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
