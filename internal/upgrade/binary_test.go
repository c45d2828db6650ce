package upgrade_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	pgsql "github.com/prescient-go/prescient/sql"
)

const (
	root     = "../.." // of this module
	released = "v0.1.0"
)

// binary is a version of prescient.
type binary struct {
	name string // old or new
	path string
	tree string // of its source
}

// oldRevision returns the revision that the database comes from. It skips the test without git or a commit.
func oldRevision(t *testing.T) string {
	t.Helper()
	known := func(revision string) bool {
		c := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
		return c.Run() == nil
	}
	revision := os.Getenv("PRESCIENT_UPGRADE_FROM")
	switch {
	case revision != "" && !known(revision):
		t.Fatalf("PRESCIENT_UPGRADE_FROM: git does not know %s", revision)
	case revision == "" && known(released):
		revision = released
	case revision == "" && known("HEAD"):
		revision = "HEAD"
	case revision == "":
		t.Skip("there is no other version: this is no checkout of git")
	}
	return revision
}

// buildOld builds the binary of a revision.
func buildOld(t *testing.T, revision string) binary {
	t.Helper()
	tree := t.TempDir()
	archive := filepath.Join(tree, "source.tar")
	call(t, root, "git", "archive", "--output", archive, cmp.Or(revision, "HEAD"))
	call(t, tree, "tar", "-xf", archive)
	b := binary{"old", filepath.Join(tree, "prescient-old"), tree}
	call(t, tree, "go", "build", "-trimpath", "-o", b.path, "./cmd/prescient")
	return b
}

// buildNew builds the binary of this tree. If its schema has the version of the old one, it gets another.
func buildNew(t *testing.T, old binary) binary {
	t.Helper()
	dir := t.TempDir()
	b := binary{"new", filepath.Join(dir, "prescient-new"), root}
	args := []string{"build", "-trimpath", "-o", b.path}
	if strings.Contains(call(t, root, old.path, "--version"), fmt.Sprintf("schema %d,", pgsql.SchemaVersion)) {
		args = append(args, "-overlay", overlay(t, dir))
	}
	call(t, root, "go", append(args, "./cmd/prescient")...)
	return b
}

// added is a migration that only adds: columns, an attribute of requests, a table, an index, and parameters at the end
// of functions.
// A parameter needs the old signature to go, because a call would find two functions otherwise.
const added = `
alter table prescient.future_job add column upgraded text default 'new';
alter table prescient.future_job_history add column upgraded text;
alter type prescient.request add attribute upgraded prescient.label;
alter table prescient.slot_run add column upgraded boolean not null default true;
alter table prescient.slot_claim add column upgraded boolean not null default true;
alter table prescient.schedule add column upgraded boolean not null default true;
alter table prescient.event_outbox add column upgraded boolean;
alter table prescient.rule add column upgraded boolean;
alter table prescient.job add column upgraded boolean;
alter table prescient.setting add column upgraded boolean;
create table prescient.upgraded (
    id bigint not null,
    constraint upgraded_pkey primary key (id)
);
create index slot_run_upgraded on prescient.slot_run (opened_at) where not upgraded;
drop function %s;
drop function %s;
update prescient.setting set schema_version = %d;
`

// overlay writes the files of the next version of the schema, and a list of them for the compiler.
func overlay(t *testing.T, dir string) string {
	t.Helper()
	files := map[string]string{}
	change := func(file string, edit func(text string) string) {
		path, err := filepath.Abs(filepath.Join(root, "sql", file))
		text, readErr := os.ReadFile(path)
		edited := edit(string(text))
		target := filepath.Join(dir, filepath.Base(file))
		if err := errors.Join(err, readErr, os.WriteFile(target, []byte(edited), 0o600)); err != nil {
			t.Fatal(err)
		}
		if edited == string(text) {
			t.Fatalf("%s: the change does not fit it any more", file)
		}
		files[path] = target
	}
	next := pgsql.SchemaVersion + 1
	change("migrate.go", func(text string) string {
		return regexp.MustCompile(`(?m)^const SchemaVersion = \d+$`).
			ReplaceAllString(text, fmt.Sprintf("const SchemaVersion = %d", next))
	})
	change("functions/claim_rows.sql", func(text string) string {
		return strings.Replace(text, "    out ", "    upgraded boolean default true,\n    out ", 1)
	})
	change("functions/cancel.sql", func(text string) string {
		return strings.NewReplacer("item_key text default '')", "item_key text default '', upgraded boolean default true)",
			"cancel(text, text, text, text)", "cancel(text, text, text, text, boolean)").Replace(text)
	})
	change("statements/columns.go", func(text string) string {
		return strings.Replace(text, "\t\trequested_within`", "\t\trequested_within\n\t\tupgraded`", 1)
	})
	// A request on a due row gives the column too.
	change("functions/make_request.sql", func(text string) string {
		return strings.Replace(text, "        unless_ended_within\n", "        unless_ended_within,\n        'requested'\n", 1)
	})
	change("functions/settle_rows.sql", func(text string) string {
		return strings.Replace(text, "r.enqueued_traceparent, null\n", "r.enqueued_traceparent, null, r.upgraded\n", 1)
	})
	change("functions/honour.sql", func(text string) string {
		return strings.NewReplacer("requested_within\n        )", "requested_within, upgraded\n        )",
			"request.within\n        )", "request.within, request.upgraded\n        )").Replace(text)
	})
	var drop []any
	_, _, routines := pgsql.Objects(reserved.Caller{})
	for _, name := range []string{"claim_rows", "cancel"} {
		drop = append(drop, "prescient."+strings.Join(pg.Overloads(routines, name), ", prescient."))
	}
	migration, err := filepath.Abs(filepath.Join(root, "sql", "migrations", fmt.Sprintf("%05d_upgrade.sql", next)))
	target := filepath.Join(dir, "migration.sql")
	files[migration] = target
	list, jsonErr := json.Marshal(map[string]any{"Replace": files})
	name := filepath.Join(dir, "overlay.json")
	text := fmt.Sprintf(added, append(drop, next)...)
	err = errors.Join(err, jsonErr, os.WriteFile(target, []byte(text), 0o600), os.WriteFile(name, list, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// printStatements is a program of the old tree that prints its statements.
const printStatements = `package main

import (
	"encoding/json"
	"os"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

func main() {
	all := map[string]string{}
	%s
	_ = json.NewEncoder(os.Stdout).Encode(all)
}
`

var statementName = regexp.MustCompile(`(?m)^\t(\w+)\s+= file\("\w+"\)`)

// statementsOf returns the statements of a version, by their names.
func statementsOf(t *testing.T, b binary) (all map[string]string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(b.tree, "internal", "pg", "statements.go"))
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, m := range statementName.FindAllStringSubmatch(string(source), -1) {
		fmt.Fprintf(&lines, "all[%q] = pg.%s.In(pgsql.DefaultSchema)\n", m[1], m[1])
	}
	dir := filepath.Join(b.tree, "internal", "printstatements")
	program := fmt.Appendf(nil, printStatements, lines.String())
	err = os.Mkdir(dir, 0o755) //nolint:gosec // a copy of the source
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "main.go"), program, 0o600)); err != nil {
		t.Fatal(err)
	}
	printed := call(t, b.tree, "go", "run", "-trimpath", "./internal/printstatements")
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// call runs a command in a directory, and returns its output.
func call(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr)
	}
	return string(out)
}
