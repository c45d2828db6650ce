package cmd

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/cmd/internal/action"
	"github.com/prescient-go/prescient/jobs"
)

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	fencedCode = regexp.MustCompile("(?ms)^```([a-z]*)[^\n]*\n(.*?)^```$")
	indented   = regexp.MustCompile(`(?m)^ {4}(\S.*)$`)
	// typed finds a command line of a binary with checks, alone, in a crontab or in a subshell. shop is a database, too.
	typed = regexp.MustCompile(`(?:(?:^|[\s(])prescient|(?:^|\$ |  |\./)(?:acme|shop)) ([a-z][a-z-]*( .*)?)$`)
	// untyped ends a command in a line.
	untyped = regexp.MustCompile(`\s(\||>|&|&&|;|#|\|\|)(\s|$)|\)`)
	// ofOthers finds commands that are no part of the tree: cobra's own, and one of examples/orders.
	ofOthers = regexp.MustCompile(`^(help|replay)\b`)
)

// commandsOf returns the command lines of a page, without the name of the binary.
func commandsOf(page string) (lines []string) {
	add := func(line string) {
		line = untyped.Split(line, 2)[0]
		if m := typed.FindStringSubmatch(line); m != nil && !ofOthers.MatchString(m[1]) {
			lines = append(lines, strings.ReplaceAll(m[1], " --help", ""))
		}
	}
	for _, m := range fencedCode.FindAllStringSubmatch(page, -1) {
		switch m[1] {
		case "sh", "console", "text", "crontab", "":
			for line := range strings.Lines(strings.ReplaceAll(m[2], "\\\n", " ")) {
				add(strings.TrimRight(line, "\n"))
			}
		}
	}
	prose := fencedCode.ReplaceAllString(page, "")
	for _, m := range indented.FindAllStringSubmatch(prose, -1) {
		add(m[1])
	}
	for _, m := range codeSpan.FindAllStringSubmatch(prose, -1) {
		add(m[1])
	}
	return lines
}

// A reader types what a page shows. A flag that is gone, or a command with another name, fails for that reader alone.
func TestEveryCommandLineOfThePagesIsACommandWithItsFlags(t *testing.T) {
	t.Parallel()
	found := 0
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../examples/*/README.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range pages {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range commandsOf(string(text)) {
				found++
				if err := parses(line); err != nil {
					t.Errorf("%s: %s: %v", path, line, err)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d command lines were found", found)
	}
}

// parses returns an error if a command line names no command, or has a flag that the command lacks.
func parses(line string) error {
	var args []string
	for _, arg := range word.FindAllString(line, -1) {
		args = append(args, strings.Trim(arg, `'"`))
	}
	a := New(jobs.NewRegistry())
	a.Name, a.Out = "prescient", io.Discard
	c, rest, err := a.newLine().root.Find(args)
	if err != nil {
		return err
	}
	return c.ParseFlags(rest)
}

// The page of the API names every action, and those that answer before they end.
func TestEveryActionIsInThePageOfTheAPI(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Actions\n")
	all, rest, _ := strings.Cut(section, ". Send each")
	_, rest, _ = strings.Cut(rest, "\n```\n\n")
	long, _, _ := strings.Cut(rest, " answer 202")
	long = long[strings.LastIndex(long, "\n- ")+1:]
	for _, form := range action.Forms {
		name := "`" + form.Path + "`"
		if !strings.Contains(all, name) {
			t.Errorf("docs/api.md does not list %s", name)
		}
		if _, goesOn := form.Empty.(action.Long); goesOn != strings.Contains(long, name) {
			t.Errorf("%s answers 202: %t; docs/api.md says otherwise in: %s", name, goesOn, long)
		}
	}
}
