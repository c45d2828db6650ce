package scheduleapi

import (
	"flag"
	"testing"

	"github.com/prescient-go/prescient/internal/web/webtest"
)

var update = flag.Bool("update", false, "write comments.json")

func TestTheDescriptionsAreTheCommentsOfTheCode(t *testing.T) {
	t.Parallel()
	_, used := Document("", webtest.Comments(t, ".", "../web"))
	webtest.Keep(t, *update, used, Comments())
}
