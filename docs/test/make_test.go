package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callMake calls make, as it is called outside of make test.
func callMake(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", "--no-print-directory"}, args...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make %s: %v", args, err)
	}
	return string(out)
}

// targets returns those that make help lists.
func targets(t *testing.T) (list []string) {
	t.Helper()
	for line := range strings.Lines(callMake(t, "help")) {
		list = append(list, strings.Fields(line)[0])
	}
	return list
}

func TestMakeHelpListsEveryTargetThatIsNoPartOfAnother(t *testing.T) {
	t.Parallel()
	text := readPage(t, "../Makefile")
	phony := regexp.MustCompile(`(?m)^\.PHONY: ([a-z].*)$`).FindStringSubmatch(text)
	parts := regexp.MustCompile(`(?m)^PARTS = (.*)$`).FindStringSubmatch(text)
	if phony == nil || parts == nil {
		t.Fatal("the Makefile has no list of its targets, or none of the parts of make test-all")
	}
	listed := targets(t)
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(text, -1) {
		part := slices.Contains(strings.Fields(parts[1]), m[1])
		if help := slices.Contains(listed, m[1]); part == help {
			t.Errorf("%s is a part of make test-all: %v; make help lists it: %v", m[1], part, help)
		}
		if !part && !slices.Contains(strings.Fields(phony[1]), m[1]) {
			t.Errorf("%s is missing in .PHONY", m[1])
		}
	}
}

func TestEveryTargetThatAPageNamesIsOneOfMakeHelp(t *testing.T) {
	t.Parallel()
	listed := targets(t)
	named := regexp.MustCompile("(?m)(?:`|^ {4}|' )make ([a-z0-9-]+)")
	found := 0
	for _, pattern := range []string{"../*.md", "../*/*.md", "../*/*/*.md"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range list {
			for _, m := range named.FindAllStringSubmatch(readPage(t, page), -1) {
				found++
				if !slices.Contains(listed, m[1]) {
					t.Errorf("%s names make %s, which make help does not list", page, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets were found", found)
	}
}

// Some targets take hours, so their command lines are read, and not run: what they name must be there.
func TestWhatTheTargetsOfMakeNameIsThere(t *testing.T) {
	t.Parallel()
	var (
		enters  = regexp.MustCompile(`^cd (\S+) && `)
		paths   = regexp.MustCompile(`\s(\./[a-z][a-z0-9/]*)(/\.\.\.)?`)
		matches = regexp.MustCompile(`-(?:run|skip) '?([A-Za-z|]+)'?`)
		scripts = regexp.MustCompile(`^[a-z/-]+\.sh`)
	)
	read := 0
	for _, target := range targets(t) {
		for line := range strings.Lines(callMake(t, "-n", target)) {
			line, dir := strings.TrimSpace(line), ".."
			if m := enters.FindStringSubmatch(line); m != nil {
				dir = filepath.Join("..", m[1])
			}
			if script := scripts.FindString(line); script != "" && !isThere(filepath.Join(dir, script)) {
				t.Errorf("make %s: there is no %s", target, script)
			}
			if !strings.Contains(line, "go test ") {
				continue
			}
			read++
			var packages []string
			for _, m := range paths.FindAllStringSubmatch(line, -1) {
				if packages = append(packages, filepath.Join(dir, m[1])); !isThere(packages[len(packages)-1]) {
					t.Errorf("make %s: there is no %s", target, m[1])
				}
			}
			if m := matches.FindStringSubmatch(line); m != nil {
				if len(packages) == 0 {
					packages = []string{dir}
				}
				for name := range strings.SplitSeq(m[1], "|") {
					if !hasTest(t, packages, name) {
						t.Errorf("make %s: no test of %q matches %s", target, packages, name)
					}
				}
			}
		}
	}
	if read < 15 {
		t.Errorf("only %d lines with go test were read", read)
	}
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hasTest tells whether a test in these directories, or below, has a part in its name.
func hasTest(t *testing.T, dirs []string, part string) (found bool) {
	t.Helper()
	test := regexp.MustCompile(`(?m)^func (Test|Fuzz)\w*` + regexp.QuoteMeta(part))
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") && test.MatchString(readPage(t, path)) {
				found = true
				return filepath.SkipAll
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
