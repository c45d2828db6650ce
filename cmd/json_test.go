package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/prescient-go/prescient/config/duration"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/event/outbox"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

var update = flag.Bool("update", false, "describe new fields in docs/json.md")

// printing is a command line for each command that prints JSON, in an order in which each can succeed. DIR is a
// directory.
var printing = []string{
	"config show", "dev-db status", "dev-db url",
	"migrate up", "migrate status", "migrate print", "slots set-width 15m", "slots rewind",
	"jobs registered", "jobs add ok order 1 --in 1h", "jobs list", "jobs reschedule ok order 1 --in 2h", "jobs run ok order 1", "jobs add ok order 1 --in 1h",
	"jobs pause ok", "status", "plan forecast", "jobs resume ok", "jobs cancel ok order 1", "jobs retry --all",
	"run", "catch-up", "why order 1", "plan advise", "doctor", "install crontab", "install systemd --binary /usr/local/bin/shop", "install kubernetes --image registry/shop:1", "slots list", "slots show 2026-03-01T13:15:00Z",
	"jobs history", "jobs stats", "jobs prune --keep 90d",
	"schedules create report --crontab @daily", "schedules list", "schedules show report",
	"schedules update report --payload 1", "schedules pause report", "schedules resume report",
	"schedules preview --crontab @daily --since 2026-03-01 --until 2026-03-02", "schedules trigger report",
	"schedules backfill report --since 2026-03-01 --until 2026-03-03", "schedules delete report",
	"schedules apply -f DIR/schedules.yaml",
	"rules test -f DIR/rules.yaml --since 2026-01-01", "rules calendar de -f DIR/calendar.yaml --year 2026", "rules plan -f DIR/rules.yaml", "rules apply -f DIR/rules.yaml", "rules list", "rules show late", "rules pause late", "rules resume late",
	"rules remove late --yes",
	"events ack billing 0-0", "events consumers", "events forward --config DIR/events.yaml", "alerts list", "alerts silence gave-up --because x", "alerts ack --all --because x --yes", "receivers list --config DIR/events.yaml", "receivers test file --config DIR/events.yaml", "events prune", "events forget billing --yes", "events dead", "events resend --all", "events discard --all --yes",
	"spool add --in 1h DIR/check --config DIR/spool.yaml", "spool run --config DIR/spool.yaml",
	"stores add b --config DIR/stores.yaml", "stores list --config DIR/stores.yaml", "stores drain a --config DIR/stores.yaml",
	"stores move a --config DIR/stores.yaml",
	"migrate down --yes",
}

const ruleOfOrders = `
rules:
  - {name: late, table: public.orders, key: id, since: placed_at, done: shipped_at, steps: [{after: 48h, event: order.late}]}
`

// elsewhere is what prints the same as another command, what prints lines, and what makes roles of the whole server: of
// these two no type is known here.
var elsewhere = map[string]string{"dev-db start": "dev-db status", "dev-db stop": "dev-db status", "events tail": "", "migrate roles": ""}

func TestTheJSONOfEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	page := readJSONPage(t)
	types := printedTypes(t)
	root := New(jobs.NewRegistry()).newLine().root
	every(root, func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		if c.Flags().Lookup("output") == nil {
			return
		}
		described, is := page.commands[path]
		if !is {
			t.Errorf("docs/json.md does not have %q", path)
		}
		same, other := elsewhere[path]
		switch printed := types[path]; {
		case other:
			if described != page.commands[same] && same != "" {
				t.Errorf("%s prints what %s does, not %s", path, same, described)
			}
		case printed == nil:
			t.Errorf("%s has --output: add a command line of it to this test", path)
		default:
			page.check(t, path, described, printed)
		}
	})
	page.write(t)
	for name := range page.objects {
		if !page.used[name] {
			t.Errorf("docs/json.md describes %q, which nothing prints", name)
		}
	}
}

// printedTypes runs every command line and returns what each has printed, whose instants must be in UTC.
func printedTypes(t *testing.T) map[string]reflect.Type {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"check": "#!/bin/sh\n", "schedules.yaml": "schedules: []\n", "rules.yaml": ruleOfOrders, "calendar.yaml": "calendars: {de: {country: DE}}\nrules: []\n", "events.yaml": "events: {destination: \"file://" + dir + "/events.jsonl\"}\nreceivers: {file: \"file://" + dir + "/messages.txt\"}\n", "spool.yaml": "spool: {dir: " + dir + "}\n", "stores.yaml": "stores: [{name: a}, {name: b, schema: b}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	registry := jobs.NewRegistry()
	registry.Register("ok", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	url, types := pgtest.Empty(t)+"&timezone=America/New_York", map[string]reflect.Type{}
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
		name := strings.TrimPrefix(c.CommandPath(), a.Name+" ")
		a.printed = func(v any) { types[name] = reflect.TypeOf(v) }
		if code := a.Run(t.Context(), append(args, "--output", "json", "--database-url", url)); code != Done && code != Found && code != Unconfirmed && code != Left {
			t.Fatalf("%s: exit code %d: %s", line, code, &log)
		}
		if !json.Valid(out.Bytes()) {
			t.Errorf("%s does not print JSON:\n%s", line, &out)
		}
		if local := regexp.MustCompile(`"(\w+)": ("\d{4}-\d\d-\d\dT[\d:.]+[+-].*")`).FindString(out.String()); local != "" {
			t.Errorf("%s prints an instant that is not in UTC: %s", line, local)
		}
	}
	return types
}

// jsonPage is docs/json.md: what commands print, and of each object the types of its fields.
type jsonPage struct {
	commands map[string]string
	objects  map[string]map[string]string
	parts    map[string]string // of an object, the object whose fields it has besides its own
	used     map[string]bool
	added    map[string][]string // lines of fields that the page lacks, by object; see -update
}

func readJSONPage(t *testing.T) jsonPage {
	t.Helper()
	text, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	page := jsonPage{map[string]string{}, map[string]map[string]string{}, map[string]string{}, map[string]bool{}, map[string][]string{}}
	object, table, common := "", page.commands, map[string]string{}
	row := regexp.MustCompile("^\\| (`[^|]+`) \\| ([^|]+) \\|")
	typed := regexp.MustCompile("^- (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*) ([^:]+)")
	several := regexp.MustCompile("^- (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*)(?:: .+)?$")
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		line = regexp.MustCompile(`\[([^]]+)\]\(#[^)]+\)`).ReplaceAllString(strings.TrimSpace(line), "[$1]")
		if name, is := strings.CutPrefix(line, "### "); is {
			if object, table = name, common; name != "common fields" {
				table = map[string]string{}
				page.objects[name] = table
			}
		} else if m := row.FindStringSubmatch(line); m != nil {
			for _, command := range quoted.FindAllStringSubmatch(m[1], -1) {
				table[command[1]] = strings.NewReplacer("[", "", "]", "").Replace(m[2])
			}
		} else if m := several.FindStringSubmatch(line); m != nil {
			for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
				if table[name[1]] = common[name[1]]; common[name[1]] == "" {
					t.Errorf("docs/json.md does not say the type of %q", name[1])
				}
			}
		} else if m := typed.FindStringSubmatch(line); m != nil {
			for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
				table[name[1]] = strings.NewReplacer("[", "", "]", "").Replace(m[2])
			}
		} else if m := regexp.MustCompile(`[Tt]he fields of \[(.+)\], and$`).FindStringSubmatch(line); m != nil {
			page.parts[object] = m[1]
		}
	}
	for object, part := range page.parts {
		if page.objects[part] == nil {
			t.Errorf("docs/json.md has no object %q", part)
		}
		page.used[part] = true
		for name, words := range page.objects[part] {
			if _, own := page.objects[object][name]; !own {
				page.objects[object][name] = words
			}
		}
	}
	return page
}

// check holds the words for a type against the type.
func (p jsonPage) check(t *testing.T, at, words string, is reflect.Type) {
	t.Helper()
	if is == nil {
		t.Errorf("%s was not printed", at)
		return
	}
	if is.Kind() == reflect.Slice && is != reflect.TypeFor[json.RawMessage]() {
		element, array := strings.CutPrefix(words, "array of ")
		if !array {
			t.Errorf("%s is %q, and an array", at, words)
		}
		p.check(t, at+"[]", element, is.Elem())
		return
	}
	if is.Kind() == reflect.Pointer {
		value, null := strings.CutSuffix(words, " or null")
		if !null {
			t.Errorf("%s is %q, and may be null", at, words)
		}
		p.check(t, at, value, is.Elem())
		return
	}
	if want := simple(is); want != "" {
		if words != want {
			t.Errorf("%s is %q, want %q", at, words, want)
		}
		return
	}
	p.used[words] = true
	fields, described := p.objects[words]
	if !described {
		t.Errorf("%s is %q, which docs/json.md does not describe: want the fields of %v", at, words, is)
		return
	}
	left := map[string]bool{}
	for name := range fields {
		left[name] = true
	}
	p.checkFields(t, object{at, words, fields, left}, is)
	for name := range left {
		t.Errorf("%s: %s of %q is described, and is no field", at, name, words)
	}
}

// object is an object of the page that is compared with a type.
type object struct {
	at, name string
	fields   map[string]string // the words for their types
	left     map[string]bool   // the type has not had them yet
}

func (p jsonPage) checkFields(t *testing.T, o object, is reflect.Type) {
	t.Helper()
	at, fields, left := o.at, o.fields, o.left
	for field := range is.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			p.checkFields(t, o, field.Type)
			continue
		case !field.IsExported() || name == "-":
			continue
		}
		words, described := fields[name]
		if !described {
			if *update {
				p.added[o.name] = append(p.added[o.name], fmt.Sprintf("- `%s` %s: %s", name, wordsOf(t, field), fieldComment(t, is, field.Name)))
				continue
			}
			t.Errorf("%s: %s is not described: say what it is in the comment of its field, and run this test with -update", at, name)
			continue
		}
		delete(left, name)
		value, missing := strings.CutSuffix(words, ", or missing")
		if missing != strings.HasPrefix(option, "omit") {
			t.Errorf("%s.%s is %q, and its tag says %q", at, name, words, option)
		}
		if option == "string" {
			if value != "text" {
				t.Errorf("%s.%s is %q, want text", at, name, words)
			}
			continue
		}
		p.check(t, at+"."+name, value, field.Type)
	}
}

// write adds the fields that the page lacks to the end of their objects.
func (p jsonPage) write(t *testing.T) {
	t.Helper()
	if len(p.added) == 0 {
		return
	}
	text, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^### `).Split(string(text), -1)
	for i, section := range sections {
		name, _, _ := strings.Cut(section, "\n")
		if lines := p.added[name]; i > 0 && lines != nil {
			sections[i] = strings.TrimRight(section, "\n") + "\n" + strings.Join(lines, "\n") + "\n\n"
		}
	}
	page := strings.TrimRight(strings.Join(sections, "### "), "\n") + "\n"
	if err := os.WriteFile("../docs/json.md", []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fieldComment returns the comment of a field of a type of this module.
func fieldComment(t *testing.T, is reflect.Type, name string) (text string) {
	t.Helper()
	_, dir, _ := strings.Cut(is.PkgPath(), module+"/")
	files, err := filepath.Glob("../" + dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			of, named := n.(*ast.TypeSpec)
			if !named || of.Name.Name != is.Name() {
				return true
			}
			for _, field := range of.Type.(*ast.StructType).Fields.List {
				if len(field.Names) == 1 && field.Names[0].Name == name {
					text = strings.TrimSpace(field.Doc.Text() + field.Comment.Text())
				}
			}
			return false
		})
	}
	if text == "" {
		t.Errorf("%v.%s has no comment, so docs/json.md cannot say what it is", is, name)
	}
	return strings.Join(strings.Fields(text), " ")
}

// wordsOf returns what docs/json.md calls the type of a field.
func wordsOf(t *testing.T, field reflect.StructField) string {
	t.Helper()
	is, before, after := field.Type, "", ""
	if is.Kind() == reflect.Pointer {
		is, after = is.Elem(), " or null"
	}
	for is.Kind() == reflect.Slice && simple(is) == "" {
		is, before = is.Elem(), before+"array of "
	}
	word := simple(is)
	if strings.HasSuffix(field.Tag.Get("json"), ",string") {
		word = "text"
	}
	if word == "" {
		t.Errorf("%s is a %v: describe that in docs/json.md, and then this field", field.Name, is)
	}
	if strings.Contains(field.Tag.Get("json"), ",omit") {
		after += ", or missing"
	}
	return before + word + after
}

// simple returns the name that docs/json.md gives a type that is neither an object nor an array.
func simple(is reflect.Type) string {
	switch is {
	case reflect.TypeFor[time.Time]():
		return "instant"
	case reflect.TypeFor[duration.Text]():
		return "duration"
	case reflect.TypeFor[json.RawMessage]():
		return "any JSON"
	case reflect.TypeFor[outbox.Position]():
		return "text"
	}
	switch is.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "number"
	case reflect.Float64:
		return "number"
	}
	return ""
}
