package sql_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestEveryStatementIsValidAgainstTheMigratedSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	files, err := fs.Glob(os.DirFS("statements"), "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no statements: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile("statements/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, schema := range []pgsql.Schema{"", "order_checks"} {
			if err := pgsql.Migrate(t.Context(), db, schema); err != nil {
				t.Fatal(err)
			}
			stmt, err := db.PrepareContext(t.Context(), pgsql.Statement(text).In(schema))
			if err != nil {
				t.Errorf("%s in schema %q: %v", file, schema, err)
				continue
			}
			if err := stmt.Close(); err != nil {
				t.Error(err)
			}
		}
		if strings.ToLower(string(text)) != string(text) && !strings.Contains(string(text), "--") {
			t.Errorf("%s: statements are lower case", file)
		}
	}
}
