package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func TestWhatTheDatabaseCannotDoNowIsRepeatedForALease(t *testing.T) {
	t.Parallel()
	away, broken := &pq.Error{Code: pqerror.CannotConnectNow}, errors.New("broken")
	for name, test := range map[string]struct {
		errs []error // of one attempt after the other; the last goes on
		err  error
		took func(d time.Duration) bool
	}{
		"it can":                    {[]error{nil}, nil, func(d time.Duration) bool { return d == 0 }},
		"it can after a while":      {[]error{away, away, nil}, nil, func(d time.Duration) bool { return d == 60*time.Millisecond }},
		"it cannot for a lease":     {[]error{away}, away, func(d time.Duration) bool { return d > time.Minute && d < time.Minute+2*time.Second }},
		"it cannot at any time":     {[]error{broken}, broken, func(d time.Duration) bool { return d == 0 }},
		"it cannot, and then never": {[]error{away, broken}, broken, func(d time.Duration) bool { return d == 20*time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)}
				n, began := 0, time.Now()
				err := s.Retry(t.Context(), Retryable, func() error {
					n++
					return test.errs[min(n, len(test.errs))-1]
				})
				if took := time.Since(began); !errors.Is(err, test.err) || !test.took(took) {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}

func TestAMessageIsOneTransactionWithTheTimeoutsOfTheEngine(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.ExecContext(t.Context(), `create table public.t (n int)`); err != nil {
		t.Fatal(err)
	}
	setting, err := pgsql.ReadSetting(t.Context(), pool, "prescient")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		DB: pool, Schema: "prescient", Citus: pgtest.OnCitus(), Version: setting.Server.Version, Lease: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
	}
	var m pg.Message
	got := map[string]string{}
	for _, name := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout", "jit"} {
		m.Add("select coalesce(current_setting('"+name+"', true), '0')", nil, func(row *sql.Rows) error {
			var value string
			err := row.Scan(&value)
			got[name] = value
			return err
		})
	}
	if err := s.Commit(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"lock_timeout": "5s", "statement_timeout": "0", "transaction_timeout": "0", "idle_in_transaction_session_timeout": "1min", "jit": "off"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var failing pg.Message
	failing.Do("insert into public.t values (1)")
	failing.Do("insert into public.t values (1/0)")
	if err := s.Commit(t.Context(), &failing); err == nil {
		t.Error("a message with an error is committed")
	}
	var n int
	if err := pool.GetContext(t.Context(), &n, `select count(*) from public.t`); err != nil || n != 0 {
		t.Errorf("%d rows of a message that failed: %v", n, err)
	}
}

func TestAClaimTriesLockedRowsEverySecondAtLast(t *testing.T) {
	t.Parallel()
	var w RowWait
	var sum time.Duration
	for range 7 {
		sum += w.Pause()
	}
	if next := w.Pause(); sum != 1270*time.Millisecond || next != time.Second || w.IsLong() {
		t.Errorf("seven pauses of %s, and then one of %s", sum, next)
	}
	w.since = w.since.Add(-rowPatience)
	if !w.IsLong() {
		t.Error("five seconds are not long")
	}
}

func TestTheLogNamesTheSessionThatHasAnAdvisoryLockForLong(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the session is on the coordinator")
	pool := pgtest.New(t)
	var log bytes.Buffer
	a := NewAdvisory(&Server{DB: pool, Schema: "prescient", Logger: slog.New(slog.NewTextHandler(&log, nil))}, time.Time{})
	const lock = "prescient.group family"
	err := pgsql.InTx(t.Context(), pool, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `select pg_advisory_xact_lock(hashtextextended($1, 0))`, lock); err != nil {
			return err
		}
		wait := func(want int) {
			t.Helper()
			a.Wait(context.WithoutCancel(t.Context()), lock, slog.String("group", "family"))
			if n := strings.Count(log.String(), "waiting for a lock"); n != want {
				t.Errorf("%d lines, want %d: %s", n, want, &log)
			}
		}
		wait(0)
		a.since = a.since.Add(-advisoryPatience)
		wait(1)
		a.Got(lock)
		wait(0 + 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
