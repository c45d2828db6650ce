package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/embedded"
	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// reader is who works through a page, in a directory of his own: he writes the files that it names, and types what
// it shows.
type reader struct {
	t   *testing.T
	dir string
	env []string
	kit *testkit.Kit // of a page for which time passes; else nil
}

// needed are the programs that pages use besides psql.
var needed = map[string]string{"restore.md": "pg_dump", "systemd.md": "systemd-analyze"}

// fromNothing are the pages whose reader has no database, only PostgreSQL's programs.
var fromNothing = map[string]bool{"alert.md": true, "tutorial.md": true}

// withServer are the pages whose reader has a private PostgreSQL that runs, with the schema and its roles.
var withServer = map[string]bool{"restore.md": true, "uninstall.md": true}

// readersTables are what the reader of a page has: of README.md, the orders of a shop, of which some were not shipped in time.
var readersTables = map[string]string{"../README.md": `
	create schema shop;
	create table shop.orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz);
	create table shop.escalation (order_id bigint);
	insert into shop.orders
	select 100 + n, placed, placed + case when n % 25 = 0 then null when n % 20 = 0 then interval '5 days' else interval '20 hours' end
	from (select n, timestamptz '2026-10-01 08:00+00' + n * interval '37 minutes' as placed from generate_series(1, 1500) n) orders`}

// meanwhile is what happens in virtual time before a reader types a command, by the page and the command.
var meanwhile = map[[2]string]func(r *reader){
	{"../README.md", "prescient why orders 42"}: func(r *reader) {
		r.kit.Rules(filepath.Join(r.dir, "rules.yaml"))
		r.kit.DB.MustExec(fmt.Sprintf(`begin; set local application_name = 'web';
			insert into shop.orders (id, placed_at) values (42, '%s'); commit`, r.kit.Now().Format(time.RFC3339)))
		r.kit.RunFor(48*time.Hour + grid.DefaultWidth)
	},
	{"restore.md", "prescient jobs cancel order.late orders 42"}: func(r *reader) {
		r.applyRule("newer")
		r.restoresThatFail()
	},
	{"restore.md", "prescient catch-up"}: func(r *reader) {
		if out := r.applyRule("older"); !strings.Contains(out, "nothing to change") {
			r.t.Errorf("the rule of the backup: %s", out)
		}
		if out := r.applyRule("newer"); !strings.Contains(out, "created") {
			r.t.Errorf("the rule that is newer than the backup: %s", out)
		}
	},
}

// applyRule applies a rule about a table of the reader's, with the name of the table, and returns what is printed.
func (r *reader) applyRule(name string) string {
	r.t.Helper()
	file := fmt.Sprintf("rules: [{name: %[1]s, table: public.%[1]s, key: id, since: placed_at, done: false, steps: [{after: 1h, event: late}]}]", name)
	out, err := r.run("echo '" + file + "' > " + name + ".yaml; prescient rules apply -f " + name + ".yaml")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// restoresThatFail restores as the page says, while something makes each restore fail. All must stay as it was.
func (r *reader) restoresThatFail() {
	r.t.Helper()
	blocks := fenced(r.t, "restore.md")
	restore := blocks[slices.IndexFunc(blocks, func(b block) bool { return strings.Contains(b.text, "pg_restore ") })].text
	for _, test := range []struct{ name, before, after string }{
		{"a truncated dump", "cp shop.dump whole.dump; truncate --size=-2000 shop.dump", "mv whole.dump shop.dump"},
		{"a newer view", r.psql("create view public.mine as select id from public.older"), r.psql("drop view public.mine")},
		{
			"without a role", r.psql("revoke select on public.older from clerk; drop role clerk"),
			r.psql("create role clerk; grant select on public.older to clerk"),
		},
	} {
		if out, err := r.run(test.before); err != nil {
			r.t.Fatalf("%s: %v\n%s", test.name, err, out)
		}
		if out, err := r.run("set +e\n" + restore); err == nil { // a terminal goes on after a command that fails
			r.t.Errorf("%s: is restored\n%s", test.name, out)
		}
		out, err := r.run("prescient why orders 42; prescient rules list; " + test.after)
		if err != nil || !strings.Contains(out, "newer") {
			r.t.Fatalf("after the restore of %s: %v\n%s", test.name, err, out)
		}
	}
}

// psql returns the command that runs statements in the reader's database.
func (r *reader) psql(statements string) string {
	return `psql --command="` + statements + `" "$PRESCIENT_DATABASE_URL"`
}

// prepared makes what the reader of a page with a server has: of restore.md, a rule that is in the backup, and a table
// of which the backup has no rule. Without --single-transaction, pg_restore commits before and after large objects.
var prepared = map[string]func(r *reader){
	"restore.md": func(r *reader) {
		if out, err := r.run(r.psql(`
			create table public.older (id bigint primary key, placed_at timestamptz);
			create table public.newer (like public.older including all);
			create role clerk;
			grant select on public.older to clerk;
			select lo_from_bytea(0, 'a photo')`)); err != nil {
			r.t.Fatalf("%v\n%s", err, out)
		}
		r.applyRule("older")
	},
}

func newReader(t *testing.T, page, binary string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir()}
	bin := filepath.Join(r.dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Link(binary, filepath.Join(bin, "prescient"))); err != nil {
		t.Fatal(err)
	}
	r.offline(bin)
	psqlrc := filepath.Join(bin, "psqlrc")
	if err := os.WriteFile(psqlrc, []byte("\\set ON_ERROR_STOP on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PSQLRC="+psqlrc, "GOWORK=")
	if fromNothing[page] {
		r.private()
		return r
	}
	if withServer[page] {
		server := r.private()
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.env = append(r.env, "PRESCIENT_DATABASE_URL="+server.SuperuserURL())
		if out, err := r.run("prescient migrate up && prescient migrate roles"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if prepare := prepared[page]; prepare != nil {
			prepare(r)
		}
		return r
	}
	raw := pgtest.URL(t)
	text, err := os.ReadFile(page)
	if err == nil && strings.Contains(string(text), "migrate up") {
		raw = pgtest.Empty(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	if tables := readersTables[page]; tables != "" {
		start := time.Now().Add(-49 * time.Hour) // so that what is printed about the days to come is short
		r.kit = testkit.New(t, testkit.Config{Start: start})
		r.kit.DB.MustExec(tables)
		raw = r.kit.URL
	}
	r.env = append(r.env, "PRESCIENT_DATABASE_URL="+raw)
	return r
}

// goCommand is go, but it gets this module from here: what is shown to be got is not published yet. In one workspace with
// the reader's module, the packages of this one are those that are compiled for tests already.
const goCommand = `#!/bin/sh
set -e
case "$*" in
"get github.com/prescient-go/prescient")
    "$GO" work init . "$MODULE"
    ;;
"mod tidy") ;; # the build does what is needed
*) exec "$GO" "$@" ;;
esac
`

func (r *reader) offline(bin string) {
	r.t.Helper()
	path, err := exec.LookPath("go")
	module, absErr := filepath.Abs("..")
	script := strings.NewReplacer("$GO", path, "$MODULE", module).Replace(goCommand)
	if err := errors.Join(err, absErr, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755)); err != nil { //nolint:gosec // is run
		r.t.Fatal(err)
	}
}

// private gives the reader a private PostgreSQL, as a command at a terminal does. It is not started.
func (r *reader) private() *embedded.Server {
	r.t.Helper()
	data, err := os.MkdirTemp("", "docs")
	if err := errors.Join(err, os.Chmod(data, 0o755)); err != nil { // for the server's user
		r.t.Fatal(err)
	}
	r.env = append(r.env, "XDG_DATA_HOME="+data, "PRESCIENT_DATABASE_URL=embedded:")
	server, err := embedded.Open(embedded.Config{Dir: filepath.Join(data, "prescient", "postgres")})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(server.Stop(context.WithoutCancel(r.t.Context())), os.RemoveAll(data)); err != nil {
			r.t.Error(err)
		}
	})
	return server
}

// opened is what is told of a slot that is run in virtual time: that it was opened later, by the clock of the server.
var opened = regexp.MustCompile(` \(the slot was opened at [^)]*\)`)

// patience is for one block, of which one builds a whole binary.
const patience = 8 * time.Minute

// run runs commands as a shell does, and returns what they print.
func (r *reader) run(commands string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-euc", commands)
	shell.Dir, shell.Env = r.dir, r.env
	shell.WaitDelay = time.Second
	out, err := shell.CombinedOutput()
	return string(out), err
}

// follow does what a block says. sh is run and must succeed; console has what is typed after $, and what that prints.
func (r *reader) follow(b block) {
	r.t.Helper()
	if b.name != "" {
		path := filepath.Join(r.dir, b.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(b.text), 0o644)); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	switch b.language {
	case "sh":
		if out, err := r.run(b.text); err != nil {
			r.t.Fatalf("%s:%d: %v\n%s\n%s", b.file, b.place, err, b.text, out)
		}
	case "console":
		for _, typed := range strings.Split("\n"+b.text, "\n$ ")[1:] {
			command, want, _ := strings.Cut(typed, "\n")
			if happens := meanwhile[[2]string{b.file, command}]; happens != nil {
				happens(r)
			}
			got, err := r.run(command)
			if r.kit != nil {
				got = opened.ReplaceAllString(got, "")
			}
			if missing := missing(want, got); err != nil || missing != "" {
				r.t.Fatalf("%s:%d: %s: %v\nit prints\n%s\nwithout %q", b.file, b.place, command, err, got, missing)
			}
		}
	}
}

// different matches what differs each time: runners and logins, instants, durations, numbers, and the room that they
// take.
var different = regexp.MustCompile(`\bby [^ ,]+|\d[\d:.TZ-]*((ms|µs|h|m|s)\b|[hm]\d[\dhms.]*)?|[ \t]+`)

func normal(line string) string {
	return strings.TrimSpace(different.ReplaceAllStringFunc(line, func(s string) string {
		if strings.TrimSpace(s) == "" {
			return " "
		}
		return "N"
	}))
}

// missing returns the first line of want that got does not have, in this order, or nothing. A line of three dots stands
// for any.
func missing(want, got string) string {
	printed := strings.Split(got, "\n")
	for line := range strings.Lines(want) {
		if normal(line) == "" || normal(line) == "..." {
			continue
		}
		found := false
		for len(printed) > 0 && !found {
			found = normal(printed[0]) == normal(line)
			printed = printed[1:]
		}
		if !found {
			return line
		}
	}
	return ""
}

func TestEveryCommandOfThePagesRuns(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("this needs psql: apt-get install postgresql-client")
	}
	binary := filepath.Join(t.TempDir(), "prescient")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", binary, "../cmd/prescient")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, page := range pages(t) {
		list := fenced(t, page)
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if program := needed[page]; program != "" {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("this needs %s", program)
				}
				if server := majorOf(t, "postgres"); program == "pg_dump" && majorOf(t, program) < server {
					t.Skipf("this needs the pg_dump of PostgreSQL %d", server)
				}
			}
			var r *reader
			for _, b := range list {
				if b.language != "sh" && b.language != "console" && b.name == "" {
					continue
				}
				if r == nil {
					r = newReader(t, page, binary)
				}
				r.follow(b)
			}
		})
	}
}

// majorOf returns the first number of the version of a program of PostgreSQL; 0 if PATH does not have it.
func majorOf(t *testing.T, program string) (number int) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		return 0
	}
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err == nil {
		_, text, _ := strings.Cut(string(out), "(PostgreSQL) ")
		_, err = fmt.Sscan(text, &number)
	}
	if err != nil {
		t.Fatalf("%s --version: %v in %q", program, err, out)
	}
	return number
}

func TestWhatAPageShowsIsComparedWithWhatIsPrinted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ want, got, missing string }{
		{"a\nb\n", "a\nx\nb\n", ""},
		{"b\na\n", "a\nb\n", "a\n"},
		{"SLOT  STATE\n2026-03-01T13:15:00Z  done\n", "SLOT                  STATE\n2031-11-01T00:00:00Z  done\n", ""},
		{"2026-03-01T13:15:00Z  done\n", "2031-11-01T00:00:00Z  open\n", "2026-03-01T13:15:00Z  done\n"},
		{"...\nb\n", "a\nb\n", ""},
	} {
		if got := missing(test.want, test.got); got != test.missing {
			t.Errorf("%q in %q: %q is missing, want %q", test.want, test.got, got, test.missing)
		}
	}
}
