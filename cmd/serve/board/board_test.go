package board

import (
	"context"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"
)

func TestADatabaseThatRefusesIsNotAskedForEachLook(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	b := &Board{cfg: Config{DB: db}, shelf: newShelf()}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, _ = b.current(gone)
	if b.failed != nil {
		t.Error("that somebody has gone is kept as an error")
	}
	left := b.shelf.left
	for range 100 {
		if _, err := b.current(t.Context()); err == nil {
			t.Fatal("there are tools")
		}
	}
	if asked := left - b.shelf.left; asked != toolStatements {
		t.Errorf("%v statements were asked for, want %d", asked, toolStatements)
	}
}
