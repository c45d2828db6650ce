package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) //nolint:gocritic // the signals are released
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("run", "", "only patches whose names match this regular `expression`")
	short := flags.Bool("short", false, "run the tests of make test, which leave long ones out")
	list := flags.Bool("list", false, "list the faults, and test nothing")
	folder := flags.String("patches", "internal/mutants/patches", "the `folder` of the patches")
	if err := flags.Parse(args); err != nil {
		return err
	}
	matches, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(*folder, "*.patch"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no patch in %s: run it in the root of the module", *folder)
	}
	var caught, survived int
	var broken []error
	for _, file := range files {
		m, err := read(file)
		if err != nil {
			return err
		}
		if !matches.MatchString(m.name) {
			continue
		}
		if *list {
			_, _ = fmt.Fprintf(out, "%-28s %s\n", m.name, m.fault)
			continue
		}
		began := time.Now() //nolint:forbidigo // it measures
		by, err := m.test(ctx, *short)
		if ctx.Err() != nil {
			return errors.New("stopped")
		}
		took := time.Since(began).Round(time.Second)
		switch {
		case err != nil:
			broken = append(broken, fmt.Errorf("%s: %w", m.name, err))
			_, _ = fmt.Fprintf(out, "BROKEN    %-28s %s: %v\n", m.name, m.fault, err)
		case by == "":
			survived++
			_, _ = fmt.Fprintf(out, "SURVIVED  %-28s %s (%s)\n", m.name, m.fault, took)
		default:
			caught++
			_, _ = fmt.Fprintf(out, "caught    %-28s %s: %s (%s)\n", m.name, m.fault, by, took)
		}
	}
	if *list {
		return nil
	}
	_, _ = fmt.Fprintf(out, "%d caught, %d survived, %d broken\n", caught, survived, len(broken))
	if survived > 0 {
		broken = append(broken, fmt.Errorf("%d faults survived: each needs a test", survived))
	}
	return errors.Join(broken...)
}

// mutant is a patch that plants a fault.
type mutant struct {
	name     string
	fault    string // in a sentence
	packages []string
	first    string // tests to run before the others; may be empty
	patch    []byte
	files    []string // that it changes
}

// read reads a patch and what it says before the first file.
func read(file string) (m mutant, err error) {
	m.name = strings.TrimSuffix(filepath.Base(file), ".patch")
	if m.patch, err = os.ReadFile(file); err != nil { //nolint:gosec // a patch of this module
		return m, err
	}
	for line := range strings.Lines(string(m.patch)) {
		line = strings.TrimRight(line, "\n")
		if rest, ok := strings.CutPrefix(line, "packages: "); ok {
			m.packages = strings.Fields(rest)
		} else if rest, ok := strings.CutPrefix(line, "first: "); ok {
			m.first = rest
		} else if rest, ok := strings.CutPrefix(line, "+++ b/"); ok {
			m.files = append(m.files, rest)
		} else if m.fault == "" {
			m.fault = strings.TrimSuffix(line, ".")
		}
	}
	if m.fault == "" || len(m.packages) == 0 || len(m.files) == 0 {
		return m, fmt.Errorf("%s: want a sentence, a line packages: and a patch", file)
	}
	return m, nil
}

// test plants the fault and returns the test that caught it, or nothing.
func (m mutant) test(ctx context.Context, short bool) (by string, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.plant(ctx, dir)
	if err != nil {
		return "", err
	}
	args := []string{
		"go", "test", "-overlay", overlay, "-ldflags", "-w", "-count", "1", "-failfast", "-timeout", "1h",
		"-skip", "WhatIsReleasedStaysAsItIs", // which catches each change of an SQL function
	}
	if short {
		args = append(args, "-short")
	}
	runs := [][]string{nil}
	if m.first != "" {
		runs = [][]string{{"-run", m.first}, nil}
	}
	for _, run := range runs {
		for _, name := range m.packages { // one by one: the fault may be caught before the last
			if by, err = catch(ctx, slices.Concat(args, run, []string{name})); by != "" || err != nil {
				return by, err
			}
		}
	}
	return "", nil
}

// plant writes the changed files below dir, and returns the overlay that replaces those of the tree by them.
func (m mutant) plant(ctx context.Context, dir string) (overlay string, err error) {
	replace := map[string]string{}
	for _, file := range m.files {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		planted := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(planted), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(planted, text, 0o600); err != nil {
			return "", err
		}
		replace[original] = planted
	}
	apply := command(ctx, []string{"git", "apply", "--recount", "-"})
	apply.Dir, apply.Stdin = dir, bytes.NewReader(m.patch)
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not apply: %s", bytes.TrimSpace(out))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^panic: (.*)|^FAIL\t(\S+)`)

// catch runs tests and returns the first that fails.
func catch(ctx context.Context, args []string) (by string, err error) {
	out, err := command(ctx, args).CombinedOutput()
	switch names := failed.FindSubmatch(out); {
	case err == nil:
		return "", nil
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("it does not build: %s", out)
	case names != nil:
		return string(bytes.Join(names[1:], nil)), nil
	default:
		return "", fmt.Errorf("the tests fail without a name: %s", out)
	}
}

// command returns a command that gets SIGTERM when ctx ends, so that tests stop their servers.
func command(ctx context.Context, args []string) *exec.Cmd {
	c := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // of this command
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	return c
}
