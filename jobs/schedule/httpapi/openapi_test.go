package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/prescient-go/prescient/internal/scheduleapi"
)

// documentJSON returns the OpenAPI document as a client reads it.
func documentJSON() ([]byte, error) {
	doc, _ := scheduleapi.Document("", scheduleapi.Comments())
	return json.Marshal(doc)
}

func TestTheDocumentIsValidAndHasEveryParameter(t *testing.T) {
	t.Parallel()
	text, err := documentJSON()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err == nil {
		err = doc.Validate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t)
	for _, r := range (scheduleapi.Config{}).Routes() {
		for _, p := range doc.Paths.Map()[r.Path].Operations()[r.Method].Parameters {
			if p.Value.Schema == nil || p.Value.Schema.Value.Type == nil {
				t.Errorf("%s %s: describe the parameter %s", r.Method, r.Path, p.Value.Name)
			}
		}
		want := "unknown: this path has no parameters"
		if len(r.Query) > 0 {
			want = fmt.Sprintf("unknown: want the parameters %s, each once", strings.Join(r.Query, ", "))
		}
		answer := w.call(r.Method, strings.ReplaceAll(r.Path, "{id}", "a")+"?unknown=1", "{}")
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s %s: %d %s, want %s", r.Method, r.Path, answer.Code, answer.Body, want)
		}
	}
}
