package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/jobs"
)

func TestThePageOfCommandsHasTheTableOfExitCodes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, line := range exit.Table {
		if int(line.Code) != i {
			t.Errorf("the code of line %d is %d", i, line.Code)
		}
		fmt.Fprintf(&want, "| %d | %s |\n", line.Code, line.Means)
	}
	if !strings.Contains(string(page), "| --- | --- |\n"+want.String()+"\n") {
		t.Errorf("docs/commands.md lacks\n%s", want.String())
	}
}

// A mistyped command line is refused before anything is done. A script has a run of each other code: of every command
// with --check, with --yes, and of those that run slots.
func TestEveryCommandHasItsExitCodes(t *testing.T) {
	t.Parallel()
	scripts := allScripts(t)
	root := New(jobs.NewRegistry()).newLine().root
	every(root, func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		if c.HasSubCommands() || !c.Runnable() {
			return
		}
		var log bytes.Buffer
		a := New(jobs.NewRegistry())
		a.Out, a.Err = &log, &log
		if code := a.Run(t.Context(), append(strings.Fields(path), "--nosuchflag")); code != Usage && !c.DisableFlagParsing {
			t.Errorf("%s --nosuchflag: exit code %d, want %d: %s", path, code, Usage, &log)
		}
		wants := map[Code]bool{
			Found:       c.Flags().Lookup("check") != nil || path == "doctor",
			Unconfirmed: c.Flags().Lookup("yes") != nil,
			Left:        path == "run" || path == "catch-up" || path == "spool run",
			Stopped:     path == "run" || path == "catch-up" || path == "spool run",
		}
		for code, want := range wants {
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^exits %d prescient %s\b`, code, regexp.QuoteMeta(path)))
			if want && !line.MatchString(scripts) {
				t.Errorf("no script has %q", line)
			}
		}
	})
}

// allScripts returns the text of all scripts.
func allScripts(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteString("\n")
	}
	return all.String()
}
