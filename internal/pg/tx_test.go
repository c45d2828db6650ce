package pg_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestPgBouncerInStatementModeIsRefusedAndNotTriedAgain(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.PooledIn(t, pgtest.Direct(t), "statement"))
	nothing := func(*sqlx.Tx) error { return nil }
	something := func(tx *sqlx.Tx) error { return tx.GetContext(t.Context(), new(int), "select $1::int", 1) }
	lazily := func() error {
		tx, err := pg.BeginLazy(t.Context(), db)
		if err != nil {
			return err
		}
		defer tx.End()
		return something(tx.Tx)
	}
	for name, try := range map[string]func() error{
		"InTx":      func() error { return pgsql.InTx(t.Context(), db, nothing) },
		"ReadTx":    func() error { return pgsql.ReadTx(t.Context(), db, nothing) },
		"a query":   func() error { return pgsql.InTx(t.Context(), db, something) },
		"BeginLazy": lazily,
		"migrate":   func() error { return pgsql.Migrate(t.Context(), db, "") },
	} {
		if err := try(); !errors.Is(err, pgsql.ErrStatementPooling) || pg.IsTransient(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAURLThatTheDriverCannotParseIsNotShown(t *testing.T) {
	t.Parallel()
	db, err := sqlx.Open("postgres", "postgres://me:hun%zzter2@db.example.com/shop")
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(*sqlx.Tx) error { return nil }
	for name, begin := range map[string]func() error{
		"to write": func() error { return pgsql.InTx(t.Context(), db, nothing) },
		"to read":  func() error { return pgsql.ReadTx(t.Context(), db, nothing) },
		"a check's": func() error {
			_, err := pg.BeginLazy(t.Context(), db)
			return err
		},
	} {
		if err := begin(); !errors.Is(err, pgsql.ErrURL) || strings.Contains(err.Error(), "hun") || pg.IsTransient(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInTxRunsAgainWhenTheServerAsksForIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "create table tried (n integer)")
	for name, test := range map[string]struct {
		code  string
		fails int // number of failed tries
		tries int
		ok    bool
	}{
		"at once":                  {"40001", 0, 1, true},
		"a serialization failure":  {"40001", 2, 3, true},
		"a deadlock":               {"40P01", 1, 2, true},
		"for ever":                 {"40P01", 100, 5, false},
		"an error of another kind": {"22012", 1, 1, false},
	} {
		tries := 0
		err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			tries++
			if _, err := tx.ExecContext(t.Context(), "insert into tried values (1)"); err != nil {
				return err
			}
			if tries > test.fails {
				return nil
			}
			_, err := tx.ExecContext(t.Context(), "do $$ begin raise exception 'try again' using errcode = '"+test.code+"'; end $$")
			return err
		})
		if tries != test.tries || (err == nil) != test.ok {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
		want := 0
		if test.ok {
			want = 1
		}
		if n := get[int](t, db, "with gone as (delete from tried returning 1) select count(*) from gone"); n != want {
			t.Errorf("%s: wrote %d rows, want %d", name, n, want)
		}
	}
}

func TestInTxRollsBackAPanic(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	func() {
		defer func() { _ = recover() }()
		_ = pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "create table made ()"); err != nil {
				t.Error(err)
			}
			panic("in the middle")
		})
	}()
	if get[bool](t, db, "select to_regclass('made') is not null") || db.Stats().InUse != 0 {
		t.Error("the transaction is not rolled back")
	}
}

func TestErrorsAreDistinguished(t *testing.T) {
	t.Parallel()
	server := func(code pqerror.Code) error { return fmt.Errorf("wrapped: %w", &pq.Error{Code: code}) }
	for _, test := range []struct {
		err                           error
		retryable, transient, timeout bool
	}{
		{err: nil},
		{err: errors.New("x")},
		{err: context.Canceled},
		{err: fmt.Errorf("x: %w", context.DeadlineExceeded)},
		{err: server(pqerror.CheckViolation)},
		{err: server(pqerror.TRSerializationFailure), retryable: true},
		{err: server(pqerror.TRDeadlockDetected), retryable: true},
		{err: server(pqerror.LockNotAvailable), timeout: true},
		{err: server(pqerror.AdminShutdown), transient: true},
		{err: server(pqerror.CannotConnectNow), transient: true},
		{err: server("08006"), transient: true},
		{err: server("53300"), transient: true},
		{err: fmt.Errorf("x: %w", driver.ErrBadConn), transient: true},
		{err: io.ErrUnexpectedEOF, transient: true},
		{err: fmt.Errorf("x: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), transient: true},
	} {
		if pg.IsRetryable(test.err) != test.retryable || pg.IsTransient(test.err) != test.transient || pg.IsLockTimeout(test.err) != test.timeout {
			t.Errorf("%v: retryable %t, transient %t, lock timeout %t", test.err, pg.IsRetryable(test.err), pg.IsTransient(test.err), pg.IsLockTimeout(test.err))
		}
	}
}

func TestNoErrorOfOpenShowsThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://me:secret@[bad", "postgres://me:sec%ret@host/db", "host=x password='secret", "mysql://me:secret@host/db",
		"postgres://me:secret@/db?host=/nowhere&sslmode=disable", "postgres://me:secret@/db?sslmode=nonsense", "postgres://me:secret@/db?port=x",
	} {
		db, err := pgsql.Open(t.Context(), url)
		if err == nil || db != nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOpenSetsParametersOfTheSession(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := open(t, url, pgsql.Param("synchronous_commit", "local"), pgsql.Patient())
	if got := get[string](t, db, "select current_setting('synchronous_commit') || ' ' || current_setting('application_name')"); got != "local prescient" {
		t.Error(got)
	}
	named := open(t, url+"&application_name=mine")
	if got := get[string](t, named, "select current_setting('application_name')"); got != "mine" {
		t.Error(got)
	}
}

func TestADatabaseThatIsNilIsNamed(t *testing.T) {
	t.Parallel()
	_, read := pgsql.ReadSetting(t.Context(), nil, "")
	_, schemas := pg.Schemas(t.Context(), nil, "*")
	_, without := pgsql.ReadSetting(t.Context(), (*sql.DB)(nil), "")
	for name, err := range map[string]error{"ReadSetting": read, "a nil *sql.DB": without, "Schemas": schemas, "Migrate": pgsql.Migrate(t.Context(), nil, "")} {
		if err == nil || !strings.Contains(err.Error(), "there is no database: db is nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
