package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/cmd/internal/exit"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
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

// An action that finds nothing to do is done. One that names what there is not is a mistake, and says what there is.
func TestEveryActionExitsWithoutAnErrorIfThereIsNothingToDoAndRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	database := "--database-url=" + pgtest.URL(t)
	run := func(line string) (code Code, out, log string) {
		var stdout, stderr bytes.Buffer
		registry := jobs.NewRegistry()
		registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
		a := New(registry)
		a.Out, a.Err = &stdout, &stderr
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ") // of a crontab
		}
		code = a.Run(t.Context(), append(args, database))
		return code, stdout.String(), stderr.String()
	}
	for _, line := range []string{"jobs pause ok", "jobs resume ok", "schedules create report --crontab 0_9_*_*_*"} {
		if code, _, log := run(line); code != Done {
			t.Fatalf("%s: exit code %d: %s", line, code, log)
		}
	}
	known := map[string]bool{}
	for path, of := range map[string]struct{ nothing, says, unknown string }{
		"cancel":      {"jobs cancel ok order 1", "nothing was cancelled", "jobs cancel nosuch order 1"},
		"cancel-many": {"jobs cancel ok --yes", "nothing was cancelled", "jobs cancel nosuch --yes"},
		"reschedule":  {"", "", "jobs reschedule ok order 1 --in 1h"},
		"retry":       {"jobs retry --all", "nothing was put back", "jobs retry --job nosuch"},
		"run-check":   {"", "", "jobs run ok order 1"},
		"ack": {
			"alerts ack --job ok --because why --yes", "0 checks were acknowledged",
			"alerts ack --job nosuch --because why --yes",
		},
		"silence":          {"", "", "alerts silence nosuch --for 1h --because why"},
		"end-silence":      {"alerts silence missed --for 0s", "missed is not silenced", "alerts silence nosuch --for 0s"},
		"pause-job":        {"jobs pause ok", "ok is paused already", "jobs pause nosuch"},
		"resume-job":       {"jobs resume ok", "ok is not paused", "jobs resume nosuch"},
		"remove-rule":      {"", "", "rules remove nosuch --yes"},
		"catch-up":         {"catch-up", "", "catch-up --job nosuch"},
		"trigger-schedule": {"", "", "schedules trigger nosuch"},
		"backfill-schedule": {
			"schedules backfill report --since 2001-01-01T10:00:00Z --until 2001-01-01T11:00:00Z", "0 events were published",
			"schedules backfill nosuch --since 2001-01-01T10:00:00Z --until 2001-01-01T11:00:00Z",
		},
		"resend-events":   {"events resend --all", "0 events are sent again", "events resend --id nosuch"},
		"discard-events":  {"events discard --all --yes", "0 dead letters were deleted", "events discard --id nosuch --yes"},
		"forget-consumer": {"", "", "events forget nosuch"},
		"pause-schedule":  {"schedules pause report", "report is paused already", "schedules pause nosuch"},
		"resume-schedule": {"schedules resume report", "report is not paused", "schedules resume nosuch"},
	} {
		if of.nothing != "" {
			run(of.nothing) // the second time it finds nothing to do
			if code, out, log := run(of.nothing); code != Done || !strings.Contains(out, of.says) {
				t.Errorf("%s: exit code %d, %q %s; want 0, and %q", of.nothing, code, out, log, of.says)
			}
		}
		if code, out, log := run(of.unknown); code != Usage || log == "" {
			t.Errorf("%s: exit code %d, %q %s; want 2", of.unknown, code, out, log)
		}
		known[path] = true
	}
	for _, form := range action.Forms {
		if !known[form.Path] && !strings.HasSuffix(form.Path, "-selected") { // no command has a list to select from
			t.Errorf("this test lacks %s", form.Path)
		}
	}
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

func TestAPreviewThatIsBoundedByAnInstantAdvisesTheSameInstant(t *testing.T) {
	t.Parallel()
	database := "--database-url=" + pgtest.URL(t)
	run := func(line string) (code Code, out, log string) {
		var stdout, stderr bytes.Buffer
		registry := jobs.NewRegistry()
		registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
		a := New(registry)
		a.Out, a.Err = &stdout, &stderr
		code = a.Run(t.Context(), append(strings.Fields(line), database))
		return code, stdout.String(), stderr.String()
	}
	if code, _, log := run("jobs add ok order 1 --in 1h"); code != Done {
		t.Fatal(log)
	}
	code, out, log := run("jobs cancel ok --until 0s")
	_, until, _ := strings.Cut(strings.TrimSuffix(strings.Split(out, "\n")[0], "\n"), "enqueued before ")
	if code != Unconfirmed || until == "" || !strings.Contains(log, "To do exactly this: --until "+until+" --yes") {
		t.Errorf("exit code %d: %s %s", code, out, log)
	}
}

// Each command that needs --yes says on stdout what it would do, as one sentence and its warnings, and on stderr that
// nothing was done. With --output json it prints the same plan.
func TestEveryCommandThatNeedsYesAsksInOneWay(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it refuses another owner of some tables")
	url := pgtest.URL(t)
	db := sqlx.MustConnect("postgres", url)
	t.Cleanup(func() { _ = db.Close() })
	run := func(line string) (code Code, out, log string) {
		var stdout, stderr bytes.Buffer
		registry := jobs.NewRegistry()
		registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
		a := New(registry)
		a.Out, a.Err = &stdout, &stderr
		code = a.Run(t.Context(), append(strings.Fields(line), "--database-url="+url))
		return code, stdout.String(), stderr.String()
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(ruleOfOrders), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "stores.yaml")
	if err := os.WriteFile(settings, []byte("stores: [{name: shop}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	db.MustExec(`create table public.orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)`)
	for _, line := range []string{"migrate up", "jobs add ok order 1 --in 1h", "rules apply -f " + file, "events ack billing 0-0"} {
		if code, out, log := run(line); code != Done {
			t.Fatalf("%s: exit code %d: %s %s", line, code, out, log)
		}
	}
	db.MustExec(`insert into prescient.event_dead (consumer, id, source, type, subject, refusals, error, dead_at)
		values ('billing', '1', 'shop', 'late', 'order-1', 3, '422', now())`)
	db.MustExec(`insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count,
			spent, enqueued_at, enqueued_by, outcome, last_error)
		values (-1, 'ok', 'order', '2', now(), date_bin('15 minutes', now(), '2000-01-01'), 0, 6, '1 s', now(), 'shop', 'failed', 'refused')`)
	db.MustExec(`create role exit_asks; alter table prescient.setting owner to exit_asks`)
	t.Cleanup(func() { db.MustExec(`reassign owned by exit_asks to current_user; drop role exit_asks`) })
	lines := map[string]string{
		"jobs cancel": "--job ok", "events discard": "--all", "events forget": "billing", "rules remove": "late",
		"alerts ack": "--all --because why", "migrate down": "", "migrate roles": "",
		"stores add": "shop --roles --config " + settings,
	}
	says := regexp.MustCompile(`^([A-Z][a-z]+s [^\n]*[^.\n]\n)([A-Z][^\n]*\.\n)*$`)
	asks := regexp.MustCompile(`(^|\n)[^\n]*nothing was done\. To do (this:|exactly this: --until \S+) --yes\n$`)
	every(New(jobs.NewRegistry()).newLine().root, func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
		if c.Flags().Lookup("yes") == nil {
			return
		}
		flags, known := lines[path]
		if !known {
			t.Errorf("this test lacks %s", path)
			return
		}
		line := path + " " + flags
		code, out, log := run(line)
		if code != Unconfirmed || !says.MatchString(out) || !asks.MatchString(log) {
			t.Errorf("%s: exit code %d\n%s\n%s", line, code, out, log)
		}
		var plan action.Plan
		code, text, _ := run(line + " --output json")
		if err := json.Unmarshal([]byte(text), &plan); code != Unconfirmed || err != nil {
			t.Errorf("%s --output json: exit code %d, %v\n%s", line, code, err, text)
		}
		printed := strings.Join(append([]string{plan.Text}, plan.Warnings...), "\n") + "\n"
		if instant := regexp.MustCompile(`20\d\d-\S+Z`); instant.ReplaceAllString(printed, "") != instant.ReplaceAllString(out, "") {
			t.Errorf("%s prints\n%s\nand as JSON\n%s", line, out, text)
		}
	})
}
