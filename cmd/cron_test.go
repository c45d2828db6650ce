package cmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/cmd"
	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/crond"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// fenced returns the block of docs/production.md in a language.
func fenced(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```"+language+"\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("docs/production.md has no block of %s", language)
	}
	return block
}

// But for the first line, which says where it comes from.
func TestTheCrontabOfThePageIsPrinted(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "prescient.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	app := cmd.New(jobs.NewRegistry())
	app.Name, app.Out, app.Err = "acme", &out, &log
	args := strings.Fields("install crontab --user=batch --width=15m --timezone=Etc/UTC --binary=/usr/local/bin/acme --config=" + config)
	if code := app.Run(t.Context(), args); code != cmd.Done {
		t.Fatal(&log)
	}
	_, lines, _ := strings.Cut(strings.ReplaceAll(out.String(), config, "/etc/prescient/prescient.yaml"), "\n")
	if diff := cmp.Diff(fenced(t, "crontab"), lines); diff != "" {
		t.Error(diff)
	}
}

// installs is a script that installs and removes the block of $ORDERS in the crontab of its user. That is a crontab of the
// script's own: it has a file system of its own over cron's directory.
const installs = `set -e
mount -t tmpfs none /var/spool/cron/crontabs
install="$ORDERS install crontab --binary $ORDERS --config $CONFIG --timezone Etc/UTC"
$install --apply
crontab -l | grep -v '^#'
$install --remove | grep 'nothing else'
if crontab -l; then exit 1; fi
$install --remove | grep 'nothing to do'
$install --apply
printf 'MAILTO=""\n7 7 * * *  true # no more than this' > "$DIR/theirs"
printf '\n' | cat "$DIR/theirs" - | crontab -
$install --apply
crontab -l | head -n 2 | cmp - "$DIR/whole"
$install --apply | grep 'nothing to do'
crontab -l > "$DIR/both"
if $install --apply --width 1m; then exit 1; fi
if $ORDERS install crontab --binary $ORDERS --config "$DIR/missing.yaml" --apply --width 1h; then exit 1; fi
crontab -l | cmp - "$DIR/both"
line=$(crontab -l | sed -n 's/^[*]\/15 [*] [*] [*] [*] //p')
env -i HOME=/ LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin /bin/sh -c "cd /; $line"
$install --remove
crontab -l | cmp - "$DIR/whole"
`

// The lines are then run with the environment that cron gives them and no other.
func TestTheCrontabOfAUserKeepsItsOtherLinesAndRunsTheSlots(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("crontab"); err != nil || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("this needs root, who may mount, and crontab(1): apt-get install cron")
	}
	dir := t.TempDir()
	orders, config := filepath.Join(dir, "orders"), filepath.Join(dir, "prescient.yaml")
	if out, err := exec.Command("go", "build", "-o", orders, "./prescient").CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	url := pgtest.URL(t)
	whole := "MAILTO=\"\"\n7 7 * * *  true # no more than this\n"
	err := errors.Join(os.WriteFile(config, fmt.Appendf(nil, "database: {url: %q}\n", url), 0o600),
		os.WriteFile(filepath.Join(dir, "whole"), []byte(whole), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	script := exec.Command("unshare", "--mount", "sh", "-c", installs)
	script.Env = append(os.Environ(), "ORDERS="+orders, "CONFIG="+config, "DIR="+dir)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var n int
	if err := db.Get(&n, `select count(*) from prescient.slot_run where state = 'done'`); err != nil || n == 0 {
		t.Errorf("the line has run %d slots, %v", n, err)
	}
}

// The crontab that is printed for slots of a minute is run with the environment that cron gives it and no other.
func TestTheCrontabThatIsPrintedRunsItsDatabaseUnderCron(t *testing.T) {
	if testing.Short() {
		t.Skip("cron begins each minute")
	}
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	orders := filepath.Join(dir, "orders")
	if out, err := exec.Command("go", "build", "-o", orders, "./prescient").CombinedOutput(); err != nil {
		t.Fatal(string(out), err)
	}
	url := pgtest.URL(t)
	config := write("prescient.yaml", strings.ReplaceAll(fenced(t, "yaml"), "postgres://prescient@db.example.com/shop?sslmode=verify-full", fmt.Sprintf("%q", url)))
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(orders, append(args, "--config", config)...).Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return string(out)
	}
	run("slots", "set-width", "1m")
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec(`update prescient.setting set since = $1`, time.Now().UTC().Truncate(time.Minute).Add(-time.Minute))

	table := run("install", "crontab", "--user", "root")
	const check, often = "9 * * * *  root  orders status --check\n", "* * * * *  root  orders status --check || touch "
	if !strings.Contains(table, "PRESCIENT_CONFIG="+config) || !strings.Contains(table, check) {
		t.Fatal(table)
	}
	notified := filepath.Join(dir, "notified")
	table = strings.Replace(table, "MAILTO=root", `MAILTO=""`, 1)
	table = strings.Replace(table, check, often+notified+"\n* * * * *  root  touch "+dir+"/probe\n", 1)
	cron, err := crond.Start(t.TempDir(), table, "")
	if err != nil {
		t.Fatal(err)
	}
	if cron == nil {
		t.Skip(crond.Missing)
	}
	t.Cleanup(cron.Stop)
	await := func(what string, done func() bool) {
		t.Helper()
		for until := time.Now().Add(await.Limit); !done(); time.Sleep(time.Second) {
			if !cron.Runs() {
				t.Fatalf("cron has ended: %s", cron.Said)
			}
			if time.Now().After(until) {
				if _, err := os.Stat(filepath.Join(dir, "probe")); err != nil {
					t.Skip("cron runs nothing here")
				}
				t.Fatalf("%s:\n%s", what, table)
			}
		}
	}
	var kinds []string
	await("the ledger has no run and no catch-up", func() bool {
		kinds = nil
		if err := db.Select(&kinds, `select kind from prescient.slot_run where state = 'done' order by slot`); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(kinds, "catch_up") && slices.Contains(kinds, "run")
	})
	// Its check tells of a database that is away.
	_ = os.Remove(notified)
	write("prescient.yaml", "database: {url: 'postgres://nobody@127.0.0.1:1/none'}\n")
	await("the check does not tell that the database is away", func() bool {
		_, err := os.Stat(notified)
		return err == nil
	})
}
