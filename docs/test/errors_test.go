package docs_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// afterErrors finds the sentences that say after how many errors a row fails.
var afterErrors = regexp.MustCompile(`after (\w+) errors`)

// errorsUntilFailed runs a check that always fails, with default options.
// It returns how many errors the check has before its row is in history.
func errorsUntilFailed(t *testing.T) (n int) {
	t.Helper()
	ctx, db, registry := t.Context(), pgtest.New(t), jobs.NewRegistry()
	registry.Register("job", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) {
		n++
		return nil, errors.New("the warehouse does not answer")
	}))
	r, err := replay.New(ctx, replay.Config{DB: db, Registry: registry, Start: midnight, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	check := jobs.Request{JobExec: "job", EntityName: "order", EntityKey: "42", CheckAt: midnight.Add(time.Hour)}
	if _, err := r.Client.Enqueue(ctx, jobs.OwnTx(db), check); err != nil {
		t.Fatal(err)
	}
	for end := midnight.Add(30 * 24 * time.Hour); r.Now().Before(end); {
		if _, err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		ended, err := seq.Collect(admin.New(r.Client).History(ctx, db, admin.HistoryFilter{Limit: 1}))
		if err != nil {
			t.Fatal(err)
		}
		if len(ended) == 1 && ended[0].Outcome == jobs.OutcomeFailed {
			return n
		}
		if _, err := r.Skip(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the row has not failed after %d errors", n)
	return n
}

func TestTheDocumentationSaysAfterHowManyErrorsARowFails(t *testing.T) {
	t.Parallel()
	want, found := strconv.Itoa(errorsUntilFailed(t)), map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "peers" || name == ".git" || name == "node_modules"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case name == "CHANGELOG.md" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		switch filepath.Ext(name) { // help and OpenAPI are in .go, .json and .yaml files
		case ".go", ".json", ".md", ".sql", ".ts", ".py", ".txt", ".yaml":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range afterErrors.FindAllStringSubmatch(string(text), -1) {
			found[path] = true
			if m[1] != want {
				t.Errorf("%s says %q; a real run takes %s", path, m[0], want)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../docs/checks.md", "../docs/spool.md"} {
		if !found[path] {
			t.Errorf("%s does not say after how many errors a row fails", path)
		}
	}
}
