package docs_test

import (
	"strings"
	"testing"

	"github.com/prescient-go/prescient/slots/grid"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestARoleWithoutRightsCanComputeTheRankOfAStoreAsThePageSays(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tx, err := db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `set local role pg_database_owner`); err != nil {
		t.Fatal(err)
	}
	for _, b := range fenced(t, "stores.md") {
		if b.language != "sql" || !strings.Contains(b.text, "as rank") {
			continue
		}
		var rank int64
		if err := tx.GetContext(t.Context(), &rank, b.text); err != nil {
			t.Fatal(err)
		}
		if want := grid.Hash("north\x1fcustomer 7"); rank != want {
			t.Errorf("the rank is %d, want %d", rank, want)
		}
		return
	}
	t.Error("stores.md has no statement for the rank")
}
