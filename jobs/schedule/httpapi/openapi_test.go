package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/prescient-go/prescient/internal/web/webtest"
)

var update = flag.Bool("update", false, "write comments.json")

// DocumentJSON returns the OpenAPI document as a client reads it.
func DocumentJSON() ([]byte, error) {
	doc, _ := document("", comments())
	return json.Marshal(doc)
}

func TestTheDescriptionsAreTheCommentsOfTheCode(t *testing.T) {
	t.Parallel()
	_, used := document("", webtest.Comments(t, ".", "../../../internal/web"))
	webtest.Keep(t, *update, used, comments())
}

func TestTheDocumentIsValidAndHasEveryParameter(t *testing.T) {
	t.Parallel()
	text, err := DocumentJSON()
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
	for _, r := range new(api).routes() {
		for _, p := range doc.Paths.Map()[r.Path].Operations()[r.Method].Parameters {
			if p.Value.Schema == nil || p.Value.Schema.Value.Type == nil {
				t.Errorf("%s %s: describe the parameter %s", r.Method, r.Path, p.Value.Name)
			}
		}
		if len(r.Query) == 0 {
			continue
		}
		_, err := r.Handle(nil, httptest.NewRequestWithContext(t.Context(), r.Method, "/?unknown=1", nil))
		want := fmt.Sprintf("unknown: want the parameters %s, each once", strings.Join(r.Query, ", "))
		if err == nil || err.Error() != want {
			t.Errorf("%s %s: %v, want %s", r.Method, r.Path, err, want)
		}
	}
}
