package sql_test

import (
	"errors"
	"testing"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAGuardIsAskedBeforeEachConnection(t *testing.T) {
	t.Parallel()
	var refused error
	asked := 0
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pg.Guard(func() error { asked++; return refused }))
	if err != nil || asked != 1 {
		t.Fatal(err, asked)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context()) // the connection that Open has made
	if err != nil || asked != 1 {
		t.Fatal(err, asked)
	}
	defer func() { _ = conn.Close() }()
	refused = errors.New("another user's server")
	if _, err := db.Conn(t.Context()); !errors.Is(err, refused) || asked != 2 {
		t.Errorf("a connection that the guard refuses: %v, asked %d times", err, asked)
	}
}
