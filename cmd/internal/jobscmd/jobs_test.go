package jobscmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/cli"
	"github.com/prescient-go/prescient/cmd/internal/factory"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
)

func newFactory() *factory.Factory {
	return factory.New(factory.Config{Name: "shop", Out: io.Discard, Err: io.Discard})
}

// execute runs a command line without a word on the streams of the test.
func execute(c *cobra.Command, args ...string) error {
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.Execute()
}

// options compares options, without the flags that instants come from.
var options = cmp.Options{
	cmp.AllowUnexported(addOptions{}, listOptions{}, historyOptions{}, pruneOptions{}, admin.Position{}),
	cmpopts.IgnoreTypes(cli.When{}, cli.Span{}, cli.Instant{}),
}

func TestAddReadsItsCommandLine(t *testing.T) {
	t.Parallel()
	key := jobs.Key{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42"}
	for line, want := range map[string]struct {
		o       addOptions
		problem string
	}{
		"order.unshipped order 42 --in 1h": {o: addOptions{key: key, onConflict: "keep"}},
		"order.unshipped order 42 --at 2026-03-01 --within 8h --group m-7 --payload 1": {
			o: addOptions{key: key, onConflict: "keep", within: 8 * time.Hour, group: "m-7", payload: "1"},
		},
		"order.unshipped order 42 --in 1h --on-conflict push-back --max-wait 1d": {
			o: addOptions{key: key, onConflict: "push-back", maxWait: 24 * time.Hour},
		},
		"order.unshipped order 42":                          {problem: "at least one of the flags in the group [at in] is required"},
		"order.unshipped order 42 --in 1h --at 2026-03-01":  {problem: "none of the others can be"},
		"order.unshipped order --in 1h":                     {problem: "missing argument: want JOB ENTITY KEY"},
		"order.unshipped order 42 --in 1h --on-conflict no": {problem: "want keep, replace, push-back or error"},
		"order.unshipped order 42 43 --in 1h":               {problem: `unexpected argument "43"`},
	} {
		var got *addOptions
		run := func(_ context.Context, _ *factory.Factory, o *addOptions) error { got = o; return nil }
		err := execute(newCmdAdd(newFactory(), run), strings.Fields(line)...)
		if want.problem != "" {
			if err == nil || !strings.Contains(err.Error(), want.problem) || got != nil {
				t.Errorf("%s: %v, want %s, before it runs", line, err, want.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if diff := cmp.Diff(&want.o, got, options); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestListAndHistoryReadWhichChecksToShow(t *testing.T) {
	t.Parallel()
	line := strings.Fields("--job order.unshipped --entity order --key 42 --limit 7")
	var listed *listOptions
	err := execute(newCmdList(newFactory(), func(_ context.Context, _ *factory.Factory, o *listOptions) error { listed = o; return nil }), line...)
	if err != nil {
		t.Fatal(err)
	}
	want := &listOptions{filter: admin.Filter{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42"}, limit: 7}
	if diff := cmp.Diff(want, listed, options); diff != "" {
		t.Error(diff)
	}
	var read *historyOptions
	history := func(args ...string) error {
		return execute(newCmdHistory(newFactory(), func(_ context.Context, _ *factory.Factory, o *historyOptions) error { read = o; return nil }), args...)
	}
	if err := history(slices.Concat(line, []string{"--outcome", "failed"})...); err != nil {
		t.Fatal(err)
	}
	wantRead := &historyOptions{
		filter: admin.HistoryFilter{JobExec: "order.unshipped", EntityName: "order", EntityKey: "42", Outcome: jobs.OutcomeFailed}, limit: 7,
	}
	if diff := cmp.Diff(wantRead, read, options); diff != "" {
		t.Error(diff)
	}
	if err := history("--outcome", "lost"); err == nil || !strings.Contains(err.Error(), "want done, cancelled") {
		t.Errorf("an unknown outcome: %v", err)
	}
}

func TestPruneKeepsWhatItsFlagSaysElseTheRetentionOfTheSettings(t *testing.T) {
	t.Parallel()
	f := newFactory()
	loaded := f.Loaded()
	loaded.Config.History.Retention = 90 * 24 * time.Hour
	f.Use(loaded)
	for line, want := range map[string]pruneOptions{
		"":                    {keep: 90 * 24 * time.Hour},
		"--keep 7d --dry-run": {keep: 7 * 24 * time.Hour, dryRun: true},
		"--keep 0":            {},
	} {
		var got pruneOptions
		run := func(_ context.Context, _ *factory.Factory, o pruneOptions) error { got = o; return nil }
		if err := execute(newCmdPrune(f, run), strings.Fields(line)...); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(want, got, options); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}
