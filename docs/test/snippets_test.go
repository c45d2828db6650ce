package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page, or code in the comment of a package.
type block struct {
	file     string
	place    int // the line in the file, or the number in the comment
	language string
	name     string // of the file that it is the content of, the second word after the fence; empty: of none
	text     string
}

// pages returns the pages of docs and those at the top.
func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("*.md")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return append(list, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md")
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)([^\n]*)\n(.*?)^```$")

// fenced returns the blocks of a page, in their order.
func fenced(t *testing.T, page string) (list []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllSubmatchIndex(text, -1) {
		line := 2 + strings.Count(string(text[:m[0]]), "\n")
		list = append(list, block{page, line, string(text[m[2]:m[3]]), strings.TrimSpace(string(text[m[4]:m[5]])), string(text[m[6]:m[7]])})
	}
	return list
}

// commented returns the code in the comments of packages that is Go.
func commented(t *testing.T) (list []block) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "doc.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		for i, b := range new(comment.Parser).Parse(file.Doc.Text()).Content {
			if code, ok := b.(*comment.Code); ok && isGo(code.Text) {
				list = append(list, block{path, i + 1, "go", "", code.Text})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// elided marks code that is left out.
var elided = regexp.MustCompile(`(?m)^\s*\.\.\.$`)

func isGo(text string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", program("", text), 0)
	return err == nil && strings.Contains(text, "(")
}

// given are the variables that snippets have from their surroundings, all and those of one file.
var given = map[string]string{
	"": "ctx context.Context, db *sqlx.DB, tx *sqlx.Tx, client *jobs.Client, registry *jobs.Registry, placedAt time.Time",

	"flow.md": "print, send jobs.CheckFunc",

	"../cmd/internal/serve/pages/doc.go": "b *board.Board, access *web.Access, mux *http.ServeMux",

	"../internal/egress/doc.go":       "secret, id string, to *url.URL, prefixes []netip.Prefix, body []byte",
	"../jobs/event/forward/doc.go":    "kafka event.Publisher",
	"../jobs/httpjob/doc.go":          "secret string",
	"../jobs/oteltrace/doc.go":        "unshipped jobs.CheckFunc",
	"../jobs/pgxjobs/doc.go":          "pool *pgxpool.Pool",
	"libraries.md":                    "pool *pgxpool.Pool",
	"../jobs/schedule/crontab/doc.go": "from, to, after time.Time, publish func(time.Time)",
	"../jobs/schedule/httpapi/doc.go": "store *schedule.Store, token string",
	"../jobs/stores/doc.go":           "a, b *sqlx.DB, set *stores.Set, customer string, check jobs.Request, key jobs.Key",
	"stores.md":                       "north, south *sqlx.DB, set *stores.Set, customer string, check jobs.Request, key jobs.Key",
	"../sql/pgtest/doc.go":            "t *testing.T",
	"../slots/delayq/doc.go":          "remind func(time.Time, []byte) error, remindOnce func(context.Context, string, []byte) error",
	"testing.md":                      "t *testing.T",
}

// beside declares the names that snippets use.
var beside = map[string]string{
	"../testkit/doc.go": "func checks() *jobs.Registry { return nil }",
	"../cmd/doc.go":     "func unshipped(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }",
}

// program makes a file of a snippet: of declarations, or of statements in a transaction of an application.
func program(file, text string) string {
	text = elided.ReplaceAllString(text, "// ...")
	if strings.HasPrefix(text, "package ") {
		return text
	}
	declarations := "package example\n" + text + "\n" + beside[file]
	if _, err := parser.ParseFile(token.NewFileSet(), "", declarations, 0); err == nil {
		return declarations
	}
	made := defined(text)
	var surroundings []string
	for _, variable := range strings.Split(given[""]+", "+given[file], ", ") {
		if name, _, _ := strings.Cut(variable, " "); !slices.Contains(made, name) {
			surroundings = append(surroundings, variable)
		}
	}
	used := ""
	for _, name := range made {
		used += "_ = " + name + "\n" // what follows is left out
	}
	return "package example\nfunc example(" + strings.Join(surroundings, ", ") + ") error {\n" + text + "\n" + used + "return nil\n}"
}

// defined returns the variables that statements define, those in blocks aside.
func defined(text string) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package example\nfunc f() {\n"+text+"\n}", 0)
	if err != nil {
		return nil
	}
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
		if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, left := range assign.Lhs {
				if id := left.(*ast.Ident); id.Name != "_" && !slices.Contains(names, id.Name) {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// imports are the packages that snippets name without saying so.
var imports = map[string]string{
	"sqlx": "github.com/jmoiron/sqlx", "context": "context", "time": "time", "errors": "errors", "fmt": "fmt", "log": "log", "os": "os",
	"testing": "testing", "netip": "net/netip", "url": "net/url", "slog": "log/slog", "http": "net/http", "math": "math",
	"sql": "database/sql", "json": "encoding/json", "pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
}

// withImports adds the imports of a program that has none.
func withImports(source string) string {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		return source // the compiler will tell
	}
	if len(file.Imports) > 0 {
		return source
	}
	named := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := selector.X.(*ast.Ident); ok {
				named[id.Name] = true
			}
		}
		return true
	})
	var lines []string
	for name, path := range imports {
		if named[name] && file.Scope.Lookup(name) == nil {
			lines = append(lines, fmt.Sprintf("import %s %q", name, path))
		}
	}
	slices.Sort(lines)
	return strings.Replace(source, "\n", "\n"+strings.Join(lines, "\n")+"\n", 1)
}

const module = "github.com/prescient-go/prescient/"

// Packages of this module are named as they are, but for sql.
func init() {
	for _, path := range strings.Fields(`cmd cmd/internal/serve/board cmd/internal/serve/pages config internal/web jobs jobs/admin internal/egress jobs/event internal/deadletter jobs/event/file jobs/event/forward jobs/event/kafka jobs/event/nats
		jobs/event/outbox jobs/httpjob jobs/oteltrace jobs/pgxjobs jobs/schedule jobs/schedule/crontab jobs/schedule/httpapi jobs/sqljob jobs/stores slots slots/daemon
		slots/delayq slots/grid slots/metrics internal/replay slots/spool internal/embedded sql/pgtest testkit`) {
		imports[filepath.Base(path)] = module + path
	}
	imports["pgsql"] = module + "sql"
}

// Other modules are compiled where they are.
func TestASnippetOfAFileOfAnotherModuleIsInIt(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range pages(t) {
		for _, b := range fenced(t, page) {
			if !strings.HasPrefix(b.name, "examples/") {
				continue
			}
			found++
			if text, err := os.ReadFile("../" + b.name); err != nil || !strings.Contains(string(text), b.text) {
				t.Errorf("%s:%d is not in %s: %v", b.file, b.place, b.name, err)
			}
		}
	}
	if found == 0 {
		t.Error("no page has one")
	}
}

// Every snippet is a package of its own, which the compiler sees beside this one.
func TestEveryGoSnippetCompiles(t *testing.T) {
	t.Parallel()
	list := commented(t)
	for _, page := range pages(t) {
		for _, b := range fenced(t, page) {
			if b.language == "go" && b.name == "" { // the page says how to build what is a file
				list = append(list, b)
			}
		}
	}
	here, err := os.Getwd()
	if err != nil || len(list) < 10 {
		t.Fatalf("only %d snippets: %v", len(list), err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	args := []string{"list", "-export", "-f", "", "-overlay", filepath.Join(dir, "overlay.json")}
	for i, b := range list {
		source := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		text := fmt.Sprintf("//line %s, block or line %d:1\n", b.file, b.place) + withImports(program(b.file, b.text))
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("snippet%d", i)
		// below cmd, for snippets of its internal packages
		overlay["Replace"][filepath.Join(filepath.Dir(here), "cmd", name, "snippet.go")] = source
		args = append(args, "../cmd/"+name)
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
