package pg_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Checks may make a new text for each statement, but a connection keeps a limited number.
func TestAConnectionPreparesStatementsAndKeepsALimitedNumber(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Prepared())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		for _, want := range []int{1, 2, 300, 300} {
			for i := range want {
				var got int
				if err := tx.GetContext(t.Context(), &got, fmt.Sprintf("select $1::int + %d", i), 7); err != nil || got != 7+i {
					return fmt.Errorf("statement %d: %d, %w", i, got, err)
				}
				result, err := tx.ExecContext(t.Context(), fmt.Sprintf("select $1::int - %d", i), 7)
				if err != nil {
					return fmt.Errorf("statement %d: %w", i, err)
				}
				if n, err := result.RowsAffected(); n != 1 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
			}
			var kept int
			if err := tx.GetContext(t.Context(), &kept, "select count(*) from pg_prepared_statements"); err != nil {
				return err
			}
			if kept != min(2*want, 250) {
				t.Errorf("%d statements are kept after %d", kept, 2*want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// If an application deallocates the statements of a connection, the pool drops that connection and
// the others stop preparing.
func TestAConnectionThatMissesWhatItKeptPreparedIsGivenUp(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t), pgsql.Prepared())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	ask := func(before string) (pid, prepared int, err error) {
		begin := func() (*sqlx.Tx, error) { return db.BeginTxx(t.Context(), nil) } // InTx would repeat it
		err = pg.Commit(begin, func(tx *sqlx.Tx) error {
			tx.MustExec(before)
			const query = "select pg_backend_pid(), (select count(*) from pg_prepared_statements) where $1"
			return tx.QueryRowContext(t.Context(), query, true).Scan(&pid, &prepared)
		})
		return pid, prepared, err
	}
	first, _, err := ask("")
	again, prepared, failed := ask("")
	if err != nil || failed != nil || prepared != 1 || again != first {
		t.Errorf("%d statements by %d, then by %d; %v, %v", prepared, first, again, err, failed)
	}
	if _, _, err := ask("deallocate all"); !pg.HasState(err, pqerror.InvalidSQLStatementName) {
		t.Error(err)
	}
	for range 2 {
		if other, prepared, err := ask(""); err != nil || other == first || prepared > 1 {
			t.Errorf("%d statements by %d, who was %d before; %v", prepared, other, first, err)
		}
	}
}

// An application may end each use of a connection with "discard all". That fails one transaction of the pool, not one
// for each connection.
func TestOneConnectionThatMissesWhatItKeptPreparedIsTheLastOne(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var conns []*sqlx.Conn
	for range 3 {
		conn, err := db.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns = append(conns, conn)
	}
	ask := func(conn *sqlx.Conn) (got int, err error) {
		return got, conn.GetContext(pg.Often(t.Context()), &got, "select $1::int + 1", 7)
	}
	for _, conn := range conns {
		if got, err := ask(conn); got != 8 || err != nil {
			t.Fatal(got, err)
		}
		if _, err := conn.ExecContext(t.Context(), "discard all"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(conns[0]); !pg.HasState(err, pqerror.InvalidSQLStatementName) {
		t.Fatal("the first connection keeps no statement: ", err)
	}
	for _, conn := range conns[1:] {
		if got, err := ask(conn); got != 8 || err != nil {
			t.Error(got, err)
		}
	}
}

// changing returns a pool with so many connections, each of which keeps a statement prepared. The columns of its result
// have changed since, as a migration under a running application may do.
func changing(t *testing.T, conns int) (db *sqlx.DB, ask func(q sqlx.QueryerContext) (int, error)) {
	t.Helper()
	db, err := pgsql.Open(t.Context(), pgtest.Direct(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.MustExec("create function changing_result(n int) returns table (a int) language sql as 'select $1 + 1'")
	ask = func(q sqlx.QueryerContext) (got int, err error) {
		return got, sqlx.GetContext(pg.Often(t.Context()), q, &got, "select a from changing_result($1)", 7)
	}
	var list []*sqlx.Conn
	for range conns {
		conn, err := db.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, conn)
		if got, err := ask(conn); got != 8 || err != nil {
			t.Fatal(got, err)
		}
	}
	for _, conn := range list {
		if err := conn.Close(); err != nil { // back into the pool
			t.Fatal(err)
		}
	}
	db.MustExec("drop function changing_result")
	db.MustExec("create function changing_result(n int) returns table (a bigint) language sql as 'select $1::bigint + 2'")
	return db, ask
}

func TestATransactionOfOursIsRepeatedIfTheResultOfItsStatementHasChanged(t *testing.T) {
	t.Parallel()
	const conns = 8 // more than the attempts of a transaction
	db, ask := changing(t, conns)
	for range conns {
		var got int
		err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) (err error) {
			got, err = ask(tx)
			return err
		})
		if got != 9 || err != nil {
			t.Fatal(got, err)
		}
	}
}

// The server ends the transaction, and only the application can repeat it.
func TestOneTransactionOfAnApplicationFailsIfTheResultOfItsStatementHasChanged(t *testing.T) {
	t.Parallel()
	const conns = 4
	db, ask := changing(t, conns)
	failed := 0
	var open []*sqlx.Tx
	for range conns { // each has a connection of its own
		tx, err := db.Beginx()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
		if got, err := ask(tx); pg.IsStale(err) {
			failed++
		} else if got != 9 || err != nil {
			t.Error(got, err)
		}
	}
	if failed != 1 {
		t.Errorf("%d transactions failed", failed)
	}
	var kept int
	if err := open[conns-1].Get(&kept, "select count(*) from pg_prepared_statements"); kept != 1 || err != nil {
		t.Errorf("%d statements are kept: %v", kept, err)
	}
	for _, tx := range open {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func TestAStatementThatIsSentOftenIsKeptPreparedButNotThroughAPooler(t *testing.T) {
	t.Parallel()
	kept := func(t *testing.T, url string, opts ...pgsql.Option) (n int) {
		t.Helper()
		db, err := pgsql.Open(t.Context(), url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		err = pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			for i, ctx := range []context.Context{t.Context(), pg.Often(t.Context()), pg.Often(t.Context())} {
				var got int
				if err := tx.GetContext(ctx, &got, fmt.Sprintf("select $1::int + %d", i/2), 7); err != nil || got != 7+i/2 {
					return fmt.Errorf("%d, %w", got, err)
				}
			}
			return tx.GetContext(t.Context(), &n, "select count(*) from pg_prepared_statements")
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Direct(t)
		if n := kept(t, url); n != 2 {
			t.Errorf("%d statements are kept, want 2", n)
		}
		if n := kept(t, url, pgsql.Option(pg.Unprepared())); n != 0 {
			t.Errorf("%d statements are kept, want none", n)
		}
	})
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if n := kept(t, pgtest.PooledIn(t, pgtest.Direct(t), mode)); n != 0 {
				t.Errorf("%d statements are kept, want none", n)
			}
		})
	}
}
