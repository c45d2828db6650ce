package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestReplayCommandWritesTheAlertsAndTellsWhatItDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "orders.csv"), filepath.Join(dir, "alerts.csv")
	write(t, in, "shipped_at,note,placed_at,order_id\n"+
		",never,2024-01-01T10:07:00Z,10\n"+
		"2024-01-03T10:15:00Z,just in time,2024-01-01T10:07:00Z,11\n"+
		"2024-01-03T10:15:01Z,just too late,2024-01-01T10:07:00Z,9\n")
	write(t, out, "what was there before")

	stdout, stderr, err := binary(t.Context(), pgtest.Empty(t), "replay", "--orders", in, "--primary", "48h", "--final", "120h", "--out", out)
	if err != nil || stderr != "" {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if want := "3 orders, 481 slots, 5 checks, 3 alerts (2 primary, 1 final) in "; !strings.HasPrefix(stdout, want) {
		t.Errorf("it prints %q, want %q", stdout, want)
	}
	want := "order_id,alert,slot\n10,primary,2024-01-03T10:15:00Z\n9,primary,2024-01-03T10:15:00Z\n10,final,2024-01-06T10:15:00Z\n"
	if got := read(t, out); got != want {
		t.Errorf("alerts.csv is\n%swant\n%s", got, want)
	}
	onlyFiles(t, dir, in, out)
}

func TestReplayCommandLeavesTheOldAlertsWhenItFails(t *testing.T) {
	t.Parallel()
	const good = "order_id,placed_at,shipped_at\n1,2024-01-01T00:00:00Z,\n"
	for name, test := range map[string]struct {
		file string
		url  string
		args []string
		want string
	}{
		"a bad line":       {good + "2,today,\n", "", nil, `line 3: placed_at "today"`},
		"a bad rule":       {good, "", []string{"--primary", "120h"}, "--final 120h0m0s: must be longer"},
		"no database":      {good, "postgres:///x?host=/nowhere", nil, "connect to the database"},
		"a bad URL":        {good, "postgres://a:secret@[", nil, "database.url"},
		"one file for all": {good, "", []string{"--out", "orders.csv"}, "is the file of the orders"},
		"a device":         {good, "", []string{"--out", "/dev/null"}, "no regular file"},
		"no directory":     {good, "", []string{"--out", "no/alerts.csv"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			in, out := filepath.Join(dir, "orders.csv"), filepath.Join(dir, "alerts.csv")
			write(t, in, test.file)
			write(t, out, "before")
			args := append([]string{"replay", "--orders", in}, test.args...)
			if !slices.Contains(args, "--out") {
				args = append(args, "--out", out)
			}
			for i, arg := range args {
				if arg == "orders.csv" || arg == "no/alerts.csv" {
					args[i] = filepath.Join(dir, arg)
				}
			}
			url := test.url
			if url == "" {
				url = "postgres:///x?host=/nowhere"
			}
			_, stderr, err := binary(t.Context(), url, args...)
			if err == nil || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "secret") {
				t.Errorf("want a failure with %q, got %v:\n%s", test.want, err, stderr)
			}
			if got := read(t, out); got != "before" {
				t.Errorf("alerts.csv is %q", got)
			}
			if got := read(t, in); got != test.file {
				t.Errorf("orders.csv is %q", got)
			}
			onlyFiles(t, dir, in, out)
		})
	}
}

func TestOrdersCanBeTriedLive(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	step := func(want string, args ...string) {
		t.Helper()
		stdout, stderr, err := binary(t.Context(), url, args...)
		if err != nil || !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("orders %v: %v, want %q\n%s%s", args, err, want, stdout, stderr)
		}
	}
	step(`^$`, "init")
	step(`^$`, "init")
	step(`^order 41 is placed; the slot of its first check is 20.*Z\n$`, "place", "41", "--primary", "1m", "--final", "2m")
	step(`^order 42 is placed`, "place", "42")
	step(`^$`, "ship", "41")
	step(`order.unshipped`, "jobs", "list")
	step(`^order_id,alert,slot\n$`, "raised")

	if _, stderr, err := binary(t.Context(), url, "ship", "43"); err == nil || !strings.Contains(stderr, "there is no order 43") {
		t.Errorf("%v\n%s", err, stderr)
	}
	if _, stderr, err := binary(t.Context(), url, "place", "42"); err == nil {
		t.Errorf("an order is placed twice\n%s", stderr)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if files = append(files, hidden...); len(files) != len(want) {
		t.Errorf("there are %v, want %v", files, want)
	}
}
