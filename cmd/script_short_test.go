package cmd

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/jobs"
)

// outsideOfScripts has the commands that tests in Go run, and these tests.
var outsideOfScripts = map[string]string{
	"prescient serve":       "serve_test.go",
	"prescient dev-db demo": "dev_db_demo_test.go",
}

// make test runs a sample of the scripts, and the beginning of others. No command is missing there.
func TestEveryCommandIsInAScriptOfMakeTest(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var sample strings.Builder
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		beginning, _, _ := strings.Cut("\n"+string(text), "\n[short] s") // skip or stop
		sample.WriteString(beginning)
	}
	a := New(jobs.NewRegistry())
	a.Name, a.Out = "prescient", io.Discard
	every(a.newLine().root, func(c *cobra.Command) {
		path := c.CommandPath()
		if c.HasSubCommands() || !c.Runnable() {
			return
		}
		if test := outsideOfScripts[path]; test != "" {
			if _, err := os.Stat(test); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return
		}
		if !regexp.MustCompile(`(?m)^(! )?(exec|exits \d+) (sh -c .*)?` + path + `(\s|$)`).MatchString(sample.String()) {
			t.Errorf("only make test-all runs %s", path)
		}
	})
}
