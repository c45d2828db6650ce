package cmd

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// onTerminal runs a command line whose stdout is a terminal so wide, and returns its lines.
func onTerminal(t *testing.T, columns uint16, args ...string) []string {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []string, 1)
	go func() {
		var list []string
		for scan := bufio.NewScanner(screen); scan.Scan(); {
			list = append(list, scan.Text())
		}
		lines <- list
	}()
	run(t, tty, args...)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	return <-lines
}

// run runs a command line that must succeed.
func run(t *testing.T, out io.Writer, args ...string) {
	t.Helper()
	a := New(jobs.NewRegistry())
	a.Name, a.Out, a.Err = "prescient", out, io.Discard
	if code := a.Run(t.Context(), args); code != Done {
		t.Fatalf("%v: exit code %d", args, code)
	}
}

func TestTablesAndHelpAreAsWideAsTheTerminal(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, key := range []string{"1", "4711", strings.Repeat("long-", 20)} {
		run(t, io.Discard, "jobs", "add", "order.unshipped", "order", key, "--in", "1h", "--database-url", url)
	}
	for _, args := range [][]string{
		{"jobs", "list"}, {"jobs", "list", "--entity", "order", "--key", "4711"}, {"why", "order", "4711"}, {"why", "order", "1"}, {"status"}, {"plan", "forecast"}, {"config", "show"}, {"run", "--help"}, {"--help"},
	} {
		args = append(args, "--database-url", url)
		for columns, most := range map[uint16]int{80: 80, 0: 80, 200: 200} {
			for _, line := range onTerminal(t, columns, args...) {
				if len(line) > most {
					t.Errorf("%v on %d columns: %d wide: %s", args[:2], columns, len(line), line)
				}
			}
		}
	}
	for _, line := range onTerminal(t, 60, "status", "--help") { // but for the examples, which are to be copied
		if len(line) > 60 && !strings.Contains(line, "prescient status --check") {
			t.Errorf("60 columns: %d wide: %s", len(line), line)
		}
	}
	var whole strings.Builder
	run(t, &whole, "jobs", "list", "--database-url", url)
	narrow := strings.Join(onTerminal(t, 80, "jobs", "list", "--database-url", url), "\n")
	if !strings.Contains(whole.String(), strings.Repeat("long-", 20)) || strings.Contains(whole.String(), "left out") ||
		!strings.Contains(narrow, "...") || !strings.Contains(narrow, "(left out: ") {
		t.Errorf("a pipe gets\n%s\nand a terminal\n%s", &whole, narrow)
	}
}
