package api

import (
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/prescient-go/prescient/internal/web"
	"github.com/prescient-go/prescient/internal/web/webtest"
)

var update = flag.Bool("update", false, "write comments.json")

func TestTheDocumentIsValidAndDescribesEachParameter(t *testing.T) {
	t.Parallel()
	made, _ := document("", comments())
	text, err := json.Marshal(made)
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
		for _, name := range r.Query {
			if parameters[name] == nil {
				t.Errorf("%s: describe the parameter %s", r.Path, name)
			}
		}
	}
}

// A type may have another name in the document than in the code.
func TestADescriptionBeginsWithTheNameOfItsSchemaOrAnother(t *testing.T) {
	t.Parallel()
	made, _ := document("", comments())
	for name, schema := range made["components"].(web.Object)["schemas"].(web.Object) {
		says, _ := schema.(web.Object)["description"].(string)
		if rest, is := strings.CutPrefix(says, name); is && rest != "" && unicode.IsUpper([]rune(rest)[0]) {
			t.Errorf("schema %s: %s", name, says)
		}
	}
}

// The served document has the paths that clients ask for.
func TestTheDocumentNamesTheBaseOfItsPaths(t *testing.T) {
	t.Parallel()
	a := &api{Config: Config{Base: "/stores/shop"}}
	v, err := a.describe().Handle(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if url := v.(web.Object)["servers"].([]web.Object)[0]["url"]; url != "/stores/shop"+Prefix {
		t.Error(url)
	}
}

func TestTheDescriptionsAreTheCommentsOfTheCode(t *testing.T) {
	t.Parallel()
	_, used := document("", webtest.Comments(t, "../board", "../../action", "../../view", "../../../../internal/web", "../../../../slots/ledger",
		"../../../../slots/health", "../../../../internal/forecast", "../../../../jobs/admin", "../../../../jobs/event/outbox",
		"../../../../internal/rulestore", "../../../../internal/scheduleapi", "."))
	webtest.Keep(t, *update, used, comments())
}
