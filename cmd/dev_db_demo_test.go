package cmd

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestDemoTellsItsStoryPlainlyInAPipeOnADatabaseWithoutTheSchema(t *testing.T) {
	t.Setenv("PRESCIENT_DATABASE_URL", pgtest.Empty(t))
	var out, log bytes.Buffer
	app := New(jobs.NewRegistry())
	app.Out, app.Err = &out, &log
	if code := app.Run(t.Context(), []string{"dev-db", "demo"}); code != Done || log.Len() > 0 {
		t.Fatalf("exit code %d\n%s", code, &log)
	}
	if regexp.MustCompile(`[^\n -~]`).Match(out.Bytes()) {
		t.Errorf("it has more than printable ASCII:\n%q", &out)
	}
	if strings.Contains(out.String(), "go run") {
		t.Errorf("it asks a reader of a release for Go and the source:\n%s", &out)
	}
	if strings.Contains(out.String(), "private PostgreSQL") {
		t.Errorf("it is not on the private one:\n%s", &out)
	}
	for _, want := range []string{"160 orders placed = ", "Missed slots now: 0", "Two days took "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, &out)
		}
	}
}
