package pg_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// lazily calls try with a pool of Open, with and without prepared statements, and with a pool of
// the driver. Each has a table with a deferred constraint.
func lazily(t *testing.T, try func(t *testing.T, db *sqlx.DB)) {
	url := pgtest.URL(t)
	for name, pool := range map[string]pgtest.Pool{"open": pgtest.Unprepared, "prepared": pgtest.Prepared, "driver": pgtest.OfDriver} {
		t.Run(name, func(t *testing.T) { try(t, lazyTable(pgtest.OpenFaults(t, url, pool).DB)) })
	}
}

func lazyTable(db *sqlx.DB) *sqlx.DB {
	db.SetMaxOpenConns(1)
	db.MustExec(`drop table if exists lazy; create table lazy (n int, unique (n) deferrable initially deferred)`)
	return db
}

// insertLast inserts a number and commits.
func insertLast(ctx context.Context, tx *pg.LazyTx, n int) error {
	var m pg.Message
	m.Add("insert into lazy values ($1) returning n", []any{n}, func(row *sql.Rows) error { return row.Scan(new(int)) })
	return m.CommitTx(context.WithoutCancel(ctx), tx)
}

func numbers(t *testing.T, db *sqlx.DB) (list []int) {
	t.Helper()
	if err := db.Select(&list, "select n from lazy order by n"); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestATransactionThatBeginsWithItsFirstStatementIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	firsts := map[string]func(ctx context.Context, tx *pg.LazyTx) error{
		"text": func(ctx context.Context, tx *pg.LazyTx) error {
			_, err := tx.ExecContext(ctx, "insert into lazy values (1)")
			return err
		},
		"parameters": func(ctx context.Context, tx *pg.LazyTx) error {
			_, err := tx.ExecContext(ctx, "insert into lazy values ($1)", 1)
			return err
		},
		"query": func(ctx context.Context, tx *pg.LazyTx) error {
			return tx.QueryRowContext(ctx, "insert into lazy values ($1) returning n", 1).Scan(new(int))
		},
		"prepare": func(ctx context.Context, tx *pg.LazyTx) error {
			s, err := tx.PrepareContext(ctx, "insert into lazy values ($1)")
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			_, err = s.ExecContext(ctx, 1)
			return err
		},
		"nothing": nil,
	}
	lazily(t, func(t *testing.T, db *sqlx.DB) {
		for name, first := range firsts {
			for _, commits := range []bool{false, true} {
				db.MustExec("truncate lazy")
				tx, err := pg.BeginLazy(t.Context(), db)
				if err == nil && first != nil {
					err = first(t.Context(), tx)
				}
				if err == nil && commits {
					err = insertLast(t.Context(), tx, 2)
				}
				if err != nil {
					t.Fatal(name, err)
				}
				if undo := tx.Rollback(); commits != errors.Is(undo, sql.ErrTxDone) {
					t.Error(name, undo)
				}
				tx.End()
				var want []int
				if commits && first != nil {
					want = []int{1, 2}
				} else if commits {
					want = []int{2}
				}
				if got := numbers(t, db); !slices.Equal(got, want) {
					t.Errorf("%s, commits %t: %d", name, commits, got)
				}
			}
		}
		if pid := pids(t, db); len(pid) != 1 {
			t.Errorf("the connection was replaced: %v", pid)
		}
	})
}

// pids returns the distinct sessions of several transactions, one after the other.
func pids(t *testing.T, db *sqlx.DB) map[int]bool {
	t.Helper()
	seen := map[int]bool{}
	for range 3 {
		tx, err := pg.BeginLazy(t.Context(), db)
		var pid int
		if err == nil {
			err = tx.Get(&pid, "select pg_backend_pid()")
		}
		if err != nil {
			t.Fatal(err)
		}
		tx.End()
		seen[pid] = true
	}
	return seen
}

func TestTheErrorOfACommitIsToldFromThatOfAStatement(t *testing.T) {
	t.Parallel()
	lazily(t, func(t *testing.T, db *sqlx.DB) {
		try := func(first string, n int) error {
			tx, err := pg.BeginLazy(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.End()
			_, _ = tx.Exec(first)
			return insertLast(t.Context(), tx, n)
		}
		err := try("insert into lazy values (1)", 1) // a duplicate, which only the commit finds
		if _, commit := errors.AsType[*pg.CommitError](err); !commit || pq.As(err, pqerror.UniqueViolation) == nil {
			t.Errorf("%v", err)
		}
		err = try("select 1 / 0", 1)
		if _, commit := errors.AsType[*pg.CommitError](err); commit || pq.As(err, pqerror.InFailedSQLTransaction) == nil {
			t.Errorf("%v", err)
		}
		if got := numbers(t, db); got != nil {
			t.Errorf("%d", got)
		}
		if err := try("insert into lazy values (1)", 2); err != nil { // the connection is still usable
			t.Error(err)
		}
	})
}

// A transaction that begins in the message that commits another is independent: an error in one
// leaves the other as it is.
func TestATransactionThatBeginsWithTheCommitOfAnother(t *testing.T) {
	t.Parallel()
	try := func(t *testing.T, db *sqlx.DB, before, first string, end func(tx *pg.LazyTx) error) error {
		tx, err := pg.BeginLazy(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.End()
		if !tx.Chains() {
			t.Skip("it is a pool of the driver's: transactions begin one by one")
		}
		_, _ = tx.Exec(before)
		var m, next pg.Message
		inserted := func(row *sql.Rows) error { return row.Scan(new(int)) }
		m.Add("insert into lazy values ($1) returning n", []any{1}, inserted)
		next.Add(first, []any{2}, inserted)
		begun, err := m.CommitAndBegin(context.WithoutCancel(t.Context()), tx, &next)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		another, err := begun(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer another.End()
		if end == nil {
			cancel()
			<-ctx.Done()
			return nil
		}
		return end(another)
	}
	const nothing, insert = "select 1", "insert into lazy values ($1) returning n"
	commits := func(tx *pg.LazyTx) error { return insertLast(t.Context(), tx, 3) }
	undoes := func(tx *pg.LazyTx) error { return tx.Rollback() }
	for name, test := range map[string]struct {
		before, first string
		end           func(tx *pg.LazyTx) error
		state         pqerror.Code
		commit        bool // the error comes from a commit
		want          []int
	}{
		"both commit":                       {nothing, insert, commits, "", false, []int{1, 2, 3}},
		"it is rolled back":                 {nothing, insert, undoes, "", false, []int{1}},
		"its context ends":                  {nothing, insert, nil, "", false, []int{1}},
		"its first statement fails":         {nothing, "select 1 / ($1::int - 2)", commits, pqerror.DivisionByZero, false, []int{1}},
		"the one before cannot be recorded": {"select 1 / 0", insert, commits, pqerror.InFailedSQLTransaction, false, nil},
		"the one before cannot commit":      {"insert into lazy values (1)", insert, commits, pqerror.UniqueViolation, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lazily(t, func(t *testing.T, db *sqlx.DB) {
				for range 2 { // the connection is still usable
					db.MustExec("truncate lazy")
					err := try(t, db, test.before, test.first, test.end)
					if pg.State(err) != test.state {
						t.Errorf("%v", err)
					}
					if _, commit := errors.AsType[*pg.CommitError](err); test.commit && !commit {
						t.Errorf("%v is not told as one of the commit", err)
					}
					if got := numbers(t, db); !slices.Equal(got, test.want) {
						t.Errorf("%d, want %d", got, test.want)
					}
				}
				if pid := pids(t, db); len(pid) != 1 {
					t.Errorf("the connection was replaced: %v", pid)
				}
			})
		})
	}
}

func TestOnlyItsOwnerCommitsATransactionThatBeginsWithItsFirstStatement(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	lazyTable(db)
	tx, err := pg.BeginLazy(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	tx.MustExec("insert into lazy values (1)")
	if err := tx.Commit(); err == nil {
		t.Error("it was committed")
	}
	if err := insertLast(t.Context(), tx, 2); !errors.Is(err, sql.ErrTxDone) {
		t.Error(err)
	}
	tx.End()
	if got := numbers(t, db); got != nil {
		t.Errorf("%d", got)
	}
}

// A check may pass no context, or one of its own. Its statements end with its timeout all the same.
func TestStatementsEndWithTheTransactionInAnyContext(t *testing.T) {
	t.Parallel()
	watch, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	lazily(t, func(t *testing.T, db *sqlx.DB) {
		forever, never := context.WithCancel(context.Background())
		defer never()
		for name, of := range map[string]context.Context{"none": context.Background(), "own": forever} {
			t.Run(name, func(t *testing.T) {
				endsWithItsTransaction(t, db, watch, func(tx *pg.LazyTx, query string) error {
					_, err := tx.ExecContext(of, query)
					return err
				})
			})
			t.Run(name+" of one that is prepared", func(t *testing.T) {
				endsWithItsTransaction(t, db, watch, func(tx *pg.LazyTx, query string) error {
					s, err := tx.PrepareContext(of, query)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = s.Close() }()
					_, err = s.ExecContext(of)
					return err
				})
			})
		}
	})
}

func endsWithItsTransaction(t *testing.T, db, watch *sqlx.DB, exec func(tx *pg.LazyTx, query string) error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	query := "select pg_sleep(60) /* " + t.Name() + " */"
	go func() {
		// The server ignores a cancellation of a statement that has not begun.
		for sleeps := 0; sleeps == 0 && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			_ = watch.Get(&sleeps, `select count(*) from pg_stat_activity where wait_event = 'PgSleep' and query like '%' || $1 || '%'`, query)
		}
		cancel()
	}()
	tx, err := pg.BeginLazy(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.End()
	began := time.Now()
	if err := exec(tx, query); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// counting is a context that counts the functions registered for its end.
type counting struct {
	context.Context
	n int
}

func (c *counting) AfterFunc(fn func()) (stop func() bool) {
	c.n++
	end := context.AfterFunc(c.Context, fn)
	return func() bool { c.n--; return end() }
}

func (c *counting) Value(any) any { return nil } // otherwise the context package sees through the wrapper

func TestATransactionKeepsNothingOfStatementsThatAreOver(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := pg.BeginLazy(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.End()
	forever, never := context.WithCancel(t.Context())
	defer never()
	ctx := &counting{Context: forever}
	for range 10 {
		if err := tx.QueryRowContext(ctx, "select $1::int", 1).Scan(new(int)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := tx.PrepareContext(ctx, "select 1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for range 10 {
		if _, err := s.ExecContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if ctx.n != 1 {
		t.Errorf("%d statements are kept, want the last", ctx.n)
	}
}

// A runner that abandons a check must not wait until it gives back the row and the connection.
func TestATransactionIsRolledBackAndItsConnectionFreeWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	lazily(t, func(t *testing.T, db *sqlx.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tx, err := pg.BeginLazy(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.End() // after everything else
		tx.MustExec("insert into lazy values (1)")
		cancel()
		waits, end := context.WithTimeout(t.Context(), await.Limit)
		defer end()
		if _, err := db.ExecContext(waits, "lock table lazy"); err == nil || waits.Err() != nil { // outside the transaction
			t.Fatal("the only connection is not free: ", err)
		}
		if err := insertLast(t.Context(), tx, 2); !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		if got := numbers(t, db); got != nil {
			t.Errorf("%d", got)
		}
	})
}

// Such a message fails before it uses the transaction: the transaction goes on, and ends with its
// context.
func TestAMessageThatCannotBeWrittenLeavesItsTransactionAsItIs(t *testing.T) {
	t.Parallel()
	sends := map[string]func(ctx context.Context, tx *pg.LazyTx, bad, good *pg.Message) error{
		"Send":     func(ctx context.Context, tx *pg.LazyTx, bad, _ *pg.Message) error { return bad.Send(ctx, tx) },
		"SendTx":   func(ctx context.Context, tx *pg.LazyTx, bad, _ *pg.Message) error { return bad.SendTx(ctx, tx) },
		"CommitTx": func(ctx context.Context, tx *pg.LazyTx, bad, _ *pg.Message) error { return bad.CommitTx(ctx, tx) },
		"CommitAndBegin": func(ctx context.Context, tx *pg.LazyTx, bad, good *pg.Message) error {
			_, err := bad.CommitAndBegin(ctx, tx, good)
			return err
		},
		"CommitAndBegin, as the first of the next": func(ctx context.Context, tx *pg.LazyTx, bad, good *pg.Message) error {
			_, err := good.CommitAndBegin(ctx, tx, bad)
			return err
		},
	}
	lazily(t, func(t *testing.T, db *sqlx.DB) {
		for name, send := range sends {
			db.MustExec("truncate lazy")
			for _, commits := range []bool{true, false} {
				ctx, cancel := context.WithCancel(t.Context())
				tx, err := pg.BeginLazy(ctx, db)
				if err != nil {
					t.Fatal(err)
				}
				tx.MustExec("insert into lazy values (1)")
				var bad, good pg.Message
				bad.Add("insert into lazy values ($1)", []any{"a\x00b"}, nil)
				good.Add("insert into lazy values (7) returning n", nil, func(row *sql.Rows) error { return row.Scan(new(int)) })
				err = send(context.WithoutCancel(ctx), tx, &bad, &good)
				if _, commit := errors.AsType[*pg.CommitError](err); err == nil || commit || !strings.Contains(err.Error(), "parameter $1") {
					t.Errorf("%s: %v", name, err)
				}
				if commits {
					err = insertLast(ctx, tx, 2)
				} else {
					cancel()
					waits, end := context.WithTimeout(t.Context(), await.Limit)
					_, err = db.ExecContext(waits, "select") // on the only connection
					end()
				}
				if err != nil {
					t.Errorf("%s, commits %v: %v", name, commits, err)
				}
				tx.End()
				cancel()
			}
			if got := numbers(t, db); !slices.Equal(got, []int{1, 2}) {
				t.Errorf("%s: %d", name, got)
			}
		}
	})
}

// A goroutine of a check may use a transaction during its commit. It writes in that transaction or
// not at all: never outside one, and never in the next one.
func TestNothingIsWrittenThroughATransactionThatIsCommitted(t *testing.T) {
	t.Parallel()
	db, err := pgsql.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	db.MustExec(`create table went_on (round int, own bool)`)
	for round := range 200 {
		tx, err := pg.BeginLazy(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		tx.MustExec(`insert into went_on values ($1, true)`, round)
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() {
				for {
					if _, err := tx.Exec(fmt.Sprintf(`insert into went_on values (%d, false)`, round)); errors.Is(err, sql.ErrTxDone) {
						return
					}
				}
			})
		}
		var m, next pg.Message
		numbers := func(row *sql.Rows) error { return row.Scan(new(int)) }
		m.Add("select n from generate_series(1, 10) as n", nil, numbers)
		next.Add("select n from generate_series(1, 10) as n", nil, numbers)
		begun, err := m.CommitAndBegin(t.Context(), tx, &next)
		if err == nil {
			another, err := begun(t.Context())
			if err == nil {
				err = insertNothing(t.Context(), another)
				another.End()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		tx.End()
		others.Wait()
	}
	var wrong int
	err = db.Get(&wrong, `
		select count(*)
		from went_on f
		where not own and not exists (select from went_on o where o.own and o.round = f.round and o.xmin = f.xmin)`)
	if err != nil || wrong != 0 {
		t.Errorf("%d were written after the commit; %v", wrong, err)
	}
}

func insertNothing(ctx context.Context, tx *pg.LazyTx) error {
	var m pg.Message
	m.Add("select 1", nil, func(row *sql.Rows) error { return row.Scan(new(int)) })
	return m.CommitTx(context.WithoutCancel(ctx), tx)
}
