package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

var update = flag.Bool("update", false, "write json.schema.json")

// printing is a command line for each command that prints JSON, in an order in which each can succeed. DIR is a
// directory.
var printing = []string{
	"config show", "dev-db status", "dev-db url",
	"migrate up", "migrate status", "migrate print", "slots set-width 15m", "slots rewind",
	"jobs list", "jobs history", "jobs stats", "slots list", "slots show 2026-03-01T13:15:00Z", "schedules list", "rules list", "events consumers", "events dead", "alerts list",
	"status", "plan forecast", "plan advise", "why order 1", "catch-up --dry-run", "catch-up", "run", "jobs prune --keep 90d --dry-run", "jobs cancel --job ok", "jobs retry --all",
	"jobs registered", "jobs add ok order 1 --in 1h", "jobs list", "jobs reschedule ok order 1 --in 2h", "jobs run ok order 1", "jobs add ok order 1 --in 1h",
	"jobs reschedule ok order 1 --in 2h --dry-run", "jobs pause ok --dry-run", "jobs pause ok", "status", "plan forecast", "jobs resume ok --dry-run", "jobs resume ok",
	"jobs cancel ok order 1 --dry-run", "jobs cancel ok order 1", "jobs cancel --job ok", "jobs retry --all --dry-run", "jobs retry --all", "catch-up --dry-run",
	"run", "catch-up", "why order 1", "plan advise", "doctor", "install crontab", "install systemd --binary /usr/local/bin/shop", "install kubernetes --image registry/shop:1", "slots list", "slots show 2026-03-01T13:15:00Z",
	"jobs history", "jobs stats", "jobs prune --keep 90d",
	"schedules create report --crontab @daily", "schedules list", "schedules show report",
	"schedules update report --payload 1", "schedules pause report", "schedules resume report",
	"schedules preview --crontab @daily --since 2026-03-01 --until 2026-03-02", "schedules trigger report --dry-run", "schedules trigger report",
	"schedules backfill report --since 2026-03-01 --until 2026-03-03 --dry-run",
	"schedules backfill report --since 2026-03-01 --until 2026-03-03", "schedules delete report",
	"schedules apply -f DIR/schedules.yaml",
	"rules test -f DIR/rules.yaml --since 2026-01-01", "rules calendar de -f DIR/calendar.yaml --year 2026", "rules plan -f DIR/rules.yaml", "rules apply -f DIR/rules.yaml", "rules list", "rules show late", "rules pause late", "rules resume late",
	"rules remove late", "rules remove late --yes",
	"events ack billing 0-0", "events consumers", "events forward --config DIR/events.yaml", "alerts list", "alerts silence missed --because x", "alerts ack --all --because x", "alerts ack --all --because x --yes", "receivers list --config DIR/events.yaml", "receivers test file --config DIR/events.yaml", "events prune", "events forget billing", "events forget billing --yes", "events dead", "events resend --all", "events discard --all", "events discard --all --yes",
	"spool add --in 1h DIR/check --config DIR/spool.yaml", "spool run --config DIR/spool.yaml",
	"stores add b --config DIR/stores.yaml", "stores list --config DIR/stores.yaml", "status --config DIR/stores.yaml", "jobs list --config DIR/stores.yaml", "stores drain a --config DIR/stores.yaml",
	"stores move a --config DIR/stores.yaml",
	"migrate roles --dry-run", "migrate down", "migrate down --yes",
}

const ruleOfOrders = `
rules:
  - {name: late, table: public.orders, key: id, since: placed_at, done: shipped_at, steps: [{after: 48h, event: order.late}]}
`

// elsewhere has the commands that print the same as another one. docs/json.md describes "events tail", which prints one
// value a line.
var elsewhere = map[string]string{"dev-db start": "dev-db status", "dev-db stop": "dev-db status", "events tail": ""}

// TestTheJSONOfEveryCommandIsThatOfTheSchema runs every command, and holds what it prints against json.schema.json, which
// it makes from the types.
func TestTheJSONOfEveryCommandIsThatOfTheSchema(t *testing.T) {
	t.Parallel()
	all := printed(t)
	root := New(jobs.NewRegistry()).newLine().root
	every(root, func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		if _, other := elsewhere[name]; c.Flags().Lookup("output") != nil && !other && all[name] == nil {
			t.Errorf("%s has --output: add a command line of it to this test", name)
		}
	})
	made := schemaOf(t, all)
	if *update {
		if err := os.WriteFile("json.schema.json", made, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(made, schemaFile) {
		t.Error("json.schema.json is not that of the types and their comments: go test ./cmd -run TheJSON -update")
	}
	validate := validator(t, made)
	for name, values := range all {
		for _, v := range values {
			if !v.ofStores() {
				validate(name, v.text)
				continue
			}
			validate("stores", v.text)
			for _, one := range inStores(t, v.text) {
				validate(name, one)
			}
		}
	}
}

func TestHelpJSONPrintsTheSchemaOfOneCommandWithAllThatItNeeds(t *testing.T) {
	t.Parallel()
	help := func(words string) (code Code, out []byte) {
		var stdout bytes.Buffer
		a := New(jobs.NewRegistry())
		a.Out, a.Err = &stdout, io.Discard
		code = a.Run(t.Context(), strings.Fields("help json "+words))
		return code, stdout.Bytes()
	}
	if code, all := help(""); code != Done || !bytes.Equal(all, schemaFile) {
		t.Errorf("help json exits with %d, and prints %.100s", code, all)
	}
	code, one := help("slots show")
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(one))
	if code != Done || err != nil {
		t.Fatalf("help json slots show exits with %d: %v", code, err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("one.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("one.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(map[string]any{}); err == nil {
		t.Error("the schema of slots show takes an object without fields")
	}
	if bytes.Contains(one, []byte("Ended")) {
		t.Error("the schema of slots show has that of jobs history")
	}
}

func TestHelpJSONNamesTheCommandsThatHaveASchemaIfThereIsNone(t *testing.T) {
	t.Parallel()
	for words, want := range map[string][]string{
		"nosuch":       {`no JSON Schema of "nosuch"`, "alerts ack, ", "config show, ", "why"},
		"serve":        {`no JSON Schema of "serve"`, "alerts ack, "},
		"slots nosuch": {`no JSON Schema of "slots nosuch"; the commands with one are slots list, `, "slots show"},
		"Status":       {`no JSON Schema of "Status"`},
	} {
		var stdout, stderr bytes.Buffer
		a := New(jobs.NewRegistry())
		a.Out, a.Err = &stdout, &stderr
		code := a.Run(t.Context(), strings.Fields("help json "+words))
		if code != Usage || stdout.Len() > 0 {
			t.Errorf("help json %s exits with %d, and prints %.100s", words, code, &stdout)
		}
		for _, text := range want {
			if !strings.Contains(stderr.String(), text) {
				t.Errorf("help json %s lacks %q: %s", words, text, &stderr)
			}
		}
	}
}

// inStores returns what a command has printed of each of several stores, as it prints that of one.
func inStores(t *testing.T, text []byte) (all [][]byte) {
	t.Helper()
	var of struct {
		Stores []struct {
			Items  []any           `json:"items"`
			Result json.RawMessage `json:"result"`
		} `json:"stores"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		t.Fatal(err)
	}
	for _, store := range of.Stores {
		one := []byte(store.Result)
		if store.Items != nil {
			one, _ = json.Marshal(map[string]any{"items": store.Items})
		}
		all = append(all, one)
	}
	return all
}

// A program that reads the JSON ignores fields that it does not know, so the schema lets objects have more. What the
// commands of this version print has none that the schema lacks.
func validator(t *testing.T, schema []byte) func(name string, text []byte) {
	t.Helper()
	read := func(text []byte) any {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	document := read(schema)
	for _, def := range document.(map[string]any)["$defs"].(map[string]any) {
		if object := def.(map[string]any); object["properties"] != nil {
			object["additionalProperties"] = false
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("all.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name string, text []byte) {
		compiled, err := compiler.Compile("all.json#/$defs/" + strings.ReplaceAll(name, " ", "-"))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(read(text)); err != nil {
			t.Errorf("%s: %v:\n%s", name, err, text)
		}
	}
}

// value is a text that a command has printed, and its type.
type value struct {
	is   reflect.Type
	text []byte
}

// ofStores reports whether it is of several stores.
func (v value) ofStores() bool { return v.is.Name() == "joined" }

// printed runs every command line and returns what each command has printed, whose instants must be in UTC.
func printed(t *testing.T) map[string][]value {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"check": "#!/bin/sh\n", "schedules.yaml": "schedules: []\n", "rules.yaml": ruleOfOrders, "calendar.yaml": "calendars: {de: {country: DE}}\nrules: []\n", "events.yaml": "events: {destination: \"file://" + dir + "/events.jsonl\"}\nreceivers: {file: \"file://" + dir + "/messages.txt\"}\n", "spool.yaml": "spool: {dir: " + dir + "}\n", "stores.yaml": "stores: [{name: a}, {name: b, schema: b}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	url, all := pgtest.Empty(t)+"&timezone=America/New_York", map[string][]value{}
	db, err := pgsql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.MustExecContext(t.Context(), `create table orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)`)
	for _, line := range printing {
		args := strings.Fields(strings.ReplaceAll(line, "DIR", dir))
		var out, log bytes.Buffer
		a := New(registry)
		a.Name, a.Out, a.Err = "shop", &out, &log
		c, _, err := a.newLine().root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		var is reflect.Type
		a.printed = func(v any) { is = reflect.TypeOf(v) }
		// Transactions of other tests hold back the readers of the outbox.
		held := func(code Code) bool {
			return code == 1 && strings.Contains(log.String(), "wait behind an open transaction")
		}
		code := a.Run(t.Context(), append(args, "--output", "json", "--database-url", url))
		if code != Done && code != Found && code != Unconfirmed && code != Left && !held(code) {
			t.Fatalf("%s: exit code %d: %s", line, code, &log)
		}
		if !json.Valid(out.Bytes()) || is == nil {
			t.Errorf("%s does not print JSON:\n%s", line, &out)
		}
		if local := regexp.MustCompile(`"(\w+)": ("\d{4}-\d\d-\d\dT[\d:.]+[+-].*")`).FindString(out.String()); local != "" {
			t.Errorf("%s prints an instant that is not in UTC: %s", line, local)
		}
		name := strings.TrimPrefix(c.CommandPath(), a.Name+" ")
		all[name] = append(all[name], value{is, out.Bytes()})
	}
	return all
}
