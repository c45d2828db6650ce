package spoolcmd

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/factory"
)

func newFolder() *folder {
	return &folder{f: factory.New(factory.Config{Name: "shop", Out: io.Discard, Err: io.Discard})}
}

// execute runs a command line without a word on the streams of the test.
func execute(c *cobra.Command, args string) error {
	c.SetArgs(strings.Fields(args))
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.Execute()
}

func TestAddReadsItsCommandLine(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for args, want := range map[string]struct {
		path, name string
		at         time.Time
		problem    string
	}{
		"--in 1h look":                           {path: "look", at: now.Add(time.Hour)},
		"--at 2026-03-02 --name order-42 ./look": {path: "./look", name: "order-42", at: now.Add(12 * time.Hour)},
		"look":                                   {problem: "at least one of the flags in the group [at in] is required"},
		"--in 1h":                                {problem: "missing argument: want FILE"},
		"--in 1h look look":                      {problem: `unexpected argument "look": want FILE and nothing more`},
		"--in 1h --at 2026-03-02 look":           {problem: "none of the others can be"},
		"--in 1h --output yaml look":             {problem: "want table or json"},
	} {
		var got *addOptions
		err := execute(newCmdAdd(newFolder(), func(o *addOptions) error { got = o; return nil }), args)
		switch {
		case want.problem != "":
			if err == nil || !strings.Contains(err.Error(), want.problem) || got != nil {
				t.Errorf("%s: error %v, want %s", args, err, want.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", args, err)
		case got.path != want.path || got.name != want.name || !got.when.From(now).Equal(want.at):
			t.Errorf("%s: path %s, name %q, at %s", args, got.path, got.name, got.when.From(now))
		}
	}
}

func TestRunReadsItsCommandLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]runOptions{
		"":                   {},
		"--catch-up":         {catchUp: true},
		"--check -o json":    {check: true},
		"--catch-up --check": {catchUp: true, check: true},
	} {
		var got *runOptions
		err := execute(newCmdRun(newFolder(), func(_ context.Context, o *runOptions) error { got = o; return nil }), args)
		if err != nil || got.catchUp != want.catchUp || got.check != want.check {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
}
