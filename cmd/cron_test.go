package cmd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// fenced returns the block of README.md in a language.
func fenced(t *testing.T, language string) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```"+language+"\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("README.md has no block of %s", language)
	}
	return block
}

// startCron starts Debian's cron, unless one runs, which looks at /etc/cron.d by itself.
func startCron(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("cron")
	if err != nil {
		path = "/usr/sbin/cron"
	}
	if _, err := os.Stat(path); err != nil || os.Getuid() != 0 {
		t.Skip("this needs root, and Debian's cron: apt-get install cron")
	}
	if exec.Command("pidof", "cron").Run() == nil {
		return
	}
	cron := exec.Command(path, "-f")
	cron.Env = []string{"PATH=/usr/bin:/bin"}
	if err := cron.Start(); err != nil {
		t.Skip("cron does not start here: ", err)
	}
	t.Cleanup(func() { _ = errors.Join(cron.Process.Signal(syscall.SIGTERM), cron.Wait()) })
}

var times = regexp.MustCompile(`(?m)^(\S+ \* \* \* \*)\s+`)

// The lines of README's crontab run every minute here, with the environment that cron gives them and no other.
func TestTheCrontabOfTheREADMERunsItsDatabaseUnderCron(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	startCron(t)
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "orders"), "./prescient").CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	url := pgtest.URL(t)
	config := write("prescient.yaml", strings.ReplaceAll(fenced(t, "yaml"), "postgres://prescient@db.example.com/shop?sslmode=verify-full", fmt.Sprintf("%q", url)), 0o600)
	write("notify-somebody", "#!/bin/sh\ntouch "+dir+"/notified\n", 0o755)

	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const width = 15 * time.Minute
	missed := time.Now().UTC().Truncate(width).Add(-width)
	db.MustExec(`update prescient.setting set since = $1`, missed)
	table := times.ReplaceAllString(fenced(t, "crontab"), "* * * * * root ")
	table = strings.Replace(table, "PATH=", "PATH="+dir+":", 1)
	table = strings.Replace(table, "/etc/prescient/prescient.yaml", config, 1)
	if !strings.Contains(table, config) || strings.Count(table, "* root ") != 2 {
		t.Fatalf("README's crontab has changed:\n%s", table)
	}
	path := fmt.Sprintf("/etc/cron.d/prescient-test-%d", os.Getpid())
	if err := os.WriteFile(path, []byte("MAILTO=\"\"\n"+table+"* * * * * root touch "+dir+"/probe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })

	for until := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) {
		var kinds []string
		if err := db.Select(&kinds, `select kind from prescient.slot_run where state = 'done' order by slot`); err != nil {
			t.Fatal(err)
		}
		// There are two to catch up if a boundary has passed before cron's first minute.
		if slices.Contains(kinds, "catch_up") && slices.Contains(kinds, "run") {
			break
		}
		if time.Now().After(until) {
			if _, err := os.Stat(filepath.Join(dir, "probe")); err != nil {
				t.Skip("cron runs nothing here")
			}
			t.Fatalf("after 4 minutes the ledger has %q:\n%s", kinds, table)
		}
	}
	// Its check tells of a database that is away.
	_ = os.Remove(filepath.Join(dir, "notified"))
	write("prescient.yaml", "database: {url: 'postgres://nobody@127.0.0.1:1/none'}\n", 0o600)
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		if _, err := os.Stat(filepath.Join(dir, "notified")); err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatal("nobody was notified")
		}
	}
}
