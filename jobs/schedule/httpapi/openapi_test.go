package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/web"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(description)
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheDocumentHasThePathsThatAreServed(t *testing.T) {
	t.Parallel()
	served, described := map[string][]string{}, map[string][]string{}
	for path, methods := range new(api).paths() {
		served[path] = slices.Sorted(maps.Keys(methods))
	}
	for path, item := range load(t).Paths.Map() {
		described[path] = slices.Sorted(maps.Keys(item.Operations()))
	}
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("(-served +described):\n%s", diff)
	}
}

func TestTheDocumentHasEveryFieldOfRequestsAndAnswers(t *testing.T) {
	t.Parallel()
	schemas := load(t).Components.Schemas
	for name, v := range map[string]any{
		"ScheduleFields": body{}, "SchedulePatch": body{}, "Schedule": View{}, "SchedulePage": page{}, "Preview": preview{}, "Instant": instant{},
		"Change": bulkChange{}, "ChangesResult": bulkResult{}, "ChangeError": bulkFailure{}, "Problem": web.Problem{}, "FieldError": web.FieldError{},
	} {
		if diff := cmp.Diff(fields(reflect.TypeOf(v)), properties(schemas[name])); diff != "" {
			t.Errorf("%s (-code +document):\n%s", name, diff)
		}
	}
}

// fields are the names in JSON of a struct's fields, sorted.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name != "":
			names = append(names, name)
		case f.Type.Kind() == reflect.Pointer:
			names = append(names, fields(f.Type.Elem())...)
		default:
			names = append(names, fields(f.Type)...)
		}
	}
	slices.Sort(names)
	return names
}

// properties are those of a schema and of what it includes, sorted.
func properties(schema *openapi3.SchemaRef) []string {
	names := slices.Collect(maps.Keys(schema.Value.Properties))
	for _, included := range schema.Value.AllOf {
		names = append(names, properties(included)...)
	}
	slices.Sort(names)
	return names
}

func TestTheDocumentHasEveryParameter(t *testing.T) {
	t.Parallel()
	a := new(api)
	for path, item := range load(t).Paths.Map() {
		for method, operation := range item.Operations() {
			var names []string
			for _, p := range operation.Parameters {
				if p.Value.In == openapi3.ParameterInQuery {
					names = append(names, p.Value.Name)
				}
			}
			if len(names) == 0 {
				continue
			}
			_, err := a.paths()[path][method](nil, httptest.NewRequestWithContext(t.Context(), method, "/?unknown=1", nil))
			if want := fmt.Sprintf("unknown: want the parameters %s, each once", strings.Join(names, ", ")); err == nil || err.Error() != want {
				t.Errorf("%s %s: %v, want %s", method, path, err, want)
			}
		}
	}
}

func TestTheDocumentIsServedAsItStands(t *testing.T) {
	t.Parallel()
	a := new(api)
	answer := httptest.NewRecorder()
	a.Answer(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil), description)
	var served, stands any
	for text, v := range map[string]*any{answer.Body.String(): &served, string(description): &stands} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(stands, served); diff != "" {
		t.Error(diff)
	}
}
