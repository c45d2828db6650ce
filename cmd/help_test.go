package cmd

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/prescient-go/prescient/cmd/internal/output"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// every yields the commands of a binary, the deepest first, but those that cobra brings.
func every(c *cobra.Command, yield func(c *cobra.Command)) {
	for _, sub := range c.Commands() {
		every(sub, yield)
	}
	yield(c)
}

func checkWidth(t *testing.T, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		if n := text.StringWidth(strings.TrimRight(line, "\n")); n > output.Narrow {
			t.Errorf("%d columns wide: %s", n, line)
		}
	}
}

// page runs a command line of a binary of this name, and returns its code and what is on stdout and stderr.
func page(t *testing.T, name string, args ...string) (code Code, out, log string) {
	t.Helper()
	var o, e bytes.Buffer
	a := New(jobs.NewRegistry())
	a.Name, a.Out, a.Err = name, &o, &e
	code = a.Run(t.Context(), args)
	return code, o.String(), e.String()
}

// silent is commands that print nothing that a program would read.
var silent = map[string]string{
	"shop daemon": "it writes a log", "shop serve": "it serves", "shop dev-db demo": "it tells a story", "shop install man": "it writes files",
	"shop install completion": "it writes a script", "shop rules sql": "it writes a script",
}

func TestThePageOfEveryCommand(t *testing.T) {
	t.Parallel()
	a := New(jobs.NewRegistry())
	a.Name, a.Out = "shop", io.Discard
	root := a.newLine().root
	everywhere := root.PersistentFlags()
	every(root, func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		t.Run(c.CommandPath(), func(t *testing.T) {
			_, out, _ := page(t, "prescient", append(path, "--help")...)
			checkWidth(t, out)
			code, out, log := page(t, "shop", append(path, "--help")...)
			if code != Done || log != "" {
				t.Fatalf("exit code %d, stderr %q", code, log)
			}
			if regexp.MustCompile(`(^|[^/.\w])prescient [a-z]|prescient(-run|-catch-up|\.service|:1)|(generic|install|--now|cron\.d/) ?prescient`).MatchString(out) {
				t.Errorf("it does not go by the name of the binary:\n%s", out)
			}
			checkWords(t, c)
			if why := silent[c.CommandPath()]; c.Runnable() && !c.HasSubCommands() && (c.Flags().Lookup("output") == nil) != (why != "") {
				t.Errorf("want --output, or a reason to have none, and not %q", why)
			}
			own(c).VisitAll(func(f *pflag.Flag) { checkFlag(t, f) })
			for _, line := range regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(flagsOf(out), -1) {
				if everywhere.Lookup(line[1]) != nil && c.Name() != flagsTopic {
					t.Errorf("--%s is a flag of every command, and belongs on the page of those", line[1])
				}
			}
			if c.HasSubCommands() || !c.Runnable() {
				return
			}
			code, out, log = page(t, "shop", append(path, "--no-such-flag")...)
			if code != Usage || out != "" || !strings.Contains(log, c.CommandPath()+" --help") {
				t.Errorf("an unknown flag: exit code %d, stdout %q, stderr %q", code, out, log)
			}
		})
	})
}

// What docs/commands.md lists is the commands there are: a line is a command, or a group and what is in it.
func TestEveryCommandIsInItsPageOfDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, entry := range regexp.MustCompile("`([a-z-]+) ?([a-z, -]*)").FindAllStringSubmatch(row[1], -1) {
			for sub := range strings.SplitSeq(entry[2], ", ") {
				listed[strings.TrimSpace("prescient "+entry[1]+" "+sub)] = true
			}
		}
	}
	a := New(jobs.NewRegistry())
	a.Name, a.Out = "prescient", io.Discard
	every(a.newLine().root, func(c *cobra.Command) {
		path := c.CommandPath()
		if c.HasSubCommands() || !c.IsAvailableCommand() || c.Name() == flagsTopic {
			return
		}
		if !listed[path] {
			t.Errorf("%s is not in docs/commands.md", path)
		}
		delete(listed, path)
	})
	for path := range listed {
		t.Errorf("docs/commands.md has %s, which is no command", path)
	}
}

// word is a word of a command line, or the beginning of what is no part of the command: a pipe, a redirection, a comment.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|\)|[^\s'")]+`)

// An example must work when it is copied.
func TestTheExamplesOfEveryCommandParse(t *testing.T) {
	t.Parallel()
	a := New(jobs.NewRegistry())
	a.Name, a.Out = "shop", io.Discard
	every(a.newLine().root, func(c *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			_, line, is := strings.Cut(line, c.CommandPath()+" ")
			if !is || c.HasSubCommands() {
				continue
			}
			var args []string
			for _, arg := range word.FindAllString(line, -1) {
				if strings.ContainsAny(arg[:1], "|>#&;)") {
					break
				}
				args = append(args, strings.Trim(arg, `'"`))
			}
			other := New(jobs.NewRegistry())
			other.Name, other.Out = "shop", io.Discard
			found, rest, err := other.newLine().root.Find(append(strings.Fields(c.CommandPath())[1:], args...))
			if err != nil {
				t.Fatal(err)
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s %s: %v", c.CommandPath(), strings.TrimSpace(line), err)
			} else if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s %s: %v", c.CommandPath(), strings.TrimSpace(line), err)
			}
		}
	})
}

// flagsOf is the part of a page below "Flags:".
func flagsOf(page string) string {
	_, flags, _ := strings.Cut(page, "\nFlags:\n")
	return flags
}

func checkWords(t *testing.T, c *cobra.Command) {
	t.Helper()
	if c.Short == "" || strings.HasSuffix(c.Short, ".") || len(c.Short) > 100 {
		t.Errorf("short: %q, want a line without a full stop", c.Short)
	}
	if c.Long != "" && !strings.Contains(c.Long, ".") {
		t.Errorf("long: %q, want sentences", c.Long)
	}
	if c.Runnable() && !c.HasSubCommands() && !strings.Contains(c.Example, c.CommandPath()) {
		t.Errorf("example: %q, want one of %s", c.Example, c.CommandPath())
	}
	checks := c.Flags().Lookup("check") != nil
	if says := regexp.MustCompile(`(?i)exits? (code\s+is\s+|with\s+)?3`).MatchString(c.Long); checks && !says {
		t.Errorf("--check, but not a word about exit code 3:\n%s", c.Long)
	}
}

// checkFlag wants words, and of what takes a value what kind it is: DURATION and TIME have units, N says of what.
func checkFlag(t *testing.T, f *pflag.Flag) {
	t.Helper()
	kind, usage := pflag.UnquoteUsage(f)
	if usage == "" || strings.HasSuffix(usage, ".") {
		t.Errorf("--%s: %q, want words without a full stop", f.Name, usage)
	}
	if kind != strings.ToUpper(kind) {
		t.Errorf("--%s takes %s, a type of Go", f.Name, kind)
	}
	counts := []string{"number of ", "N ", "version"}
	if kind == "N" && !slices.ContainsFunc(counts, func(word string) bool { return strings.Contains(usage, word) }) {
		t.Errorf("--%s: %q does not say what it counts", f.Name, usage)
	}
	if _, ok := f.Value.(interface{ Words() []string }); ok && !strings.Contains(usage, " or ") {
		t.Errorf("--%s: %q does not name its words", f.Name, usage)
	}
}

func TestTheFlagsOfEveryCommandHaveAPage(t *testing.T) {
	t.Parallel()
	code, out, _ := page(t, "shop", "help", "flags")
	for _, want := range []string{"--database-url URL", "--log-level LEVEL", "DURATION", "90s, 15m"} {
		if code != Done || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q in:\n%s", code, want, out)
		}
	}
	_, out, _ = page(t, "shop", "jobs", "list", "--help")
	if !strings.Contains(out, `"shop help flags"`) {
		t.Errorf("the page of a command does not name it:\n%s", out)
	}
}

func TestMessagesNameTheBinaryTheyComeFrom(t *testing.T) {
	t.Parallel()
	code, _, log := page(t, "shop", "status", "--database-url", pgtest.Empty(t))
	if code != Failure || !strings.Contains(log, "`shop migrate up`") || strings.Contains(log, "`prescient") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

func TestThePageOfACommandSaysItsFirstSentenceOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ short, long, first, rest string }{
		"the same":        {"Retry failed checks", "Retry failed checks.\n\nMove them back.", "Retry failed checks.", "Move them back."},
		"in more words":   {"Show one slot: its claims", "Show one slot: its claims, and what waits. A claim is a right.", "Show one slot: its claims, and what waits.", "A claim is a right."},
		"something else":  {"Run one slot", "A slot is an instant. Runs share it.", "Run one slot.", "A slot is an instant. Runs share it."},
		"no description":  {"Run one slot", "", "Run one slot.", ""},
		"a dot in a name": {"Show one row", "Show one row of order.late now. More.", "Show one row of order.late now.", "More."},
	} {
		if first, rest := firstSentence(test.short, test.long); first != test.first || rest != test.rest {
			t.Errorf("%s: %q and %q", name, first, rest)
		}
	}
}
