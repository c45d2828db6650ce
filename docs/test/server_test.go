package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/defaults"
	"github.com/prescient-go/prescient/slots/daemon"
)

func TestThePageOfTheServerSaysHowManyConnectionsAndHowMuchTimeARunnerNeeds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("server.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("may need at once, %d by default", daemon.Config{}.Pool()),
		fmt.Sprintf("`Runner.Grace` (%.0f s)", defaults.Grace.Seconds()),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("server.md does not say %q", want)
		}
	}
}
