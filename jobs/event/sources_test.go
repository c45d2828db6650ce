package event_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// publishing are the packages whose checks write events in their transaction. Nothing of them may send an event, because a
// network that is slow or down would then hold a transaction of the database open, and fail checks.
var publishing = []string{"../schedule", "../rule", "../sqljob", "outbox", "../../internal/deadletter", "../../internal/rulestore"}

// sending are imports that reach a network, except that of the database.
var sending = []string{
	"net/http", "net/smtp", "internal/egress", "jobs/event/webhook", "jobs/event/kafka", "jobs/event/nats", "jobs/event/file",
	"jobs/event/forward", "internal/receiver", "go-mail", "franz-go", "nats.go",
}

func TestNothingThatPublishesInATransactionCallsANetwork(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, folder := range publishing {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			served := entry != nil && entry.IsDir() && entry.Name() == "httpapi" // serves schedules, and publishes nothing
			if served {
				return filepath.SkipDir
			}
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			seen++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, problem := range calls(file) {
				t.Errorf("%s: %s", path, problem)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 20 {
		t.Errorf("only %d files were read", seen)
	}
}

// calls returns what of a file reaches a network.
func calls(file *ast.File) (problems []string) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		for _, name := range sending {
			if path == name || strings.HasSuffix(path, "/"+name) || strings.Contains(path, "/"+name+"/") {
				problems = append(problems, "imports "+path)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is && s.Sel.Name == "Publisher" {
			if of, is := s.X.(*ast.Ident); is && of.Name == "event" {
				problems = append(problems, "uses event.Publisher, which sends: take an event.TxPublisher")
			}
		}
		return true
	})
	return problems
}

func TestTheScanOfSourcesFindsWhatSends(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{
		`package a; import "net/http"`:                                                              1,
		`package a; import "github.com/prescient-go/prescient/internal/egress"`:                     1,
		`package a; import "github.com/prescient-go/prescient/jobs/event"; var p event.Publisher`:   1,
		`package a; import "github.com/prescient-go/prescient/jobs/event"; var p event.TxPublisher`: 0,
		`package a; import "github.com/twmb/franz-go/pkg/kgo"`:                                      1,
		`package a; import "github.com/nats-io/nats.go/jetstream"`:                                  1,
		`package a; import "github.com/prescient-go/prescient/jobs/event/outbox"`:                   0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := calls(file); len(got) != want {
			t.Errorf("%s: %v, want %d", source, got, want)
		}
	}
}
