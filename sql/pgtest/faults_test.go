package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
)

// pair is a database with a table t, seen through faults, and as it is.
type pair struct {
	*testing.T
	faults *Faults
	conn   *sqlx.Conn // of the faults' pool
	db     *sqlx.DB
}

func newPair(t *testing.T) *pair {
	t.Helper()
	url := Empty(t)
	p := &pair{T: t, db: connectTo(t, url)}
	p.db.MustExec("create table t (v text)")
	p.faults = OpenFaults(t, url, Unprepared)
	var err error
	if p.conn, err = p.faults.DB.Connx(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.conn.Close() })
	return p
}

// set arms a fault, and does something in the process that makes two round trips before.
func (p *pair) set(fault Fault) {
	p.Helper()
	fault.At = 3
	p.faults.Set(fault)
	for range 2 {
		if _, err := p.conn.ExecContext(p.Context(), "select 1"); err != nil {
			p.Fatal(err)
		}
	}
}

// write is a message of several statements that commits, and returns how many rows it has shown.
func (p *pair) write() (rows int, err error) {
	result, err := p.conn.QueryContext(p.Context(), "begin; set local lock_timeout = 0; insert into t values ('x') returning v; commit")
	if err != nil {
		return 0, err
	}
	defer func() { _ = result.Close() }()
	for more := true; more; more = result.NextResultSet() {
		for result.Next() {
			rows++
		}
	}
	return rows, result.Err()
}

func (p *pair) written() string {
	p.Helper()
	return get(p.T, p.db, "select count(*) from t")
}

// sessions counts those of the process.
func (p *pair) sessions() string {
	p.Helper()
	return get(p.T, p.db, "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
}

func (p *pair) eventually(want string, get func() string) {
	p.Helper()
	for deadline := time.Now().Add(await.Limit); get() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.Fatalf("%s, want %s", get(), want)
		}
	}
}

func TestEachRoundTripIsCountedAndNamed(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.faults.Set(Fault{})
	err := pgsql.InTx(t.Context(), p.faults.DB, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "insert into t\n values ($1)", "a"); err != nil {
			return err
		}
		stmt, err := tx.PreparexContext(t.Context(), "select v from t where v = $1")
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		var v string
		return stmt.GetContext(t.Context(), &v, "a")
	})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("to be rolled back")
	if err := pgsql.InTx(t.Context(), p.faults.DB, func(*sqlx.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if rows, err := p.write(); rows != 1 || err != nil {
		t.Error(rows, err)
	}
	want := []string{
		"connect", "begin ; select set_config('', '', true) where current_setting('', true) is not null", "insert into t values ($1)", "prepare select v from t where v = $1", "select v from t where v = $1", "commit",
		"begin", "rollback",
		"begin; insert into t values ('') returning v; commit",
	}
	if diff := cmp.Diff(want, p.faults.Trips()); diff != "" {
		t.Error(diff)
	}
	if got := p.written(); got != "2" {
		t.Errorf("%s rows", got)
	}
}

func TestWhatTheServerHasDoneAndTheCallerLearnsIsAsTheFaultSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind    Kind
		rows    int
		written string
		fails   bool
		goesOn  bool
	}{
		{CrashBefore, 0, "0", true, false},
		{CrashAfter, 0, "1", true, false},
		{Cut, 0, "0", true, true},
		{Outage, 0, "0", true, true},
		{LostReply, 0, "1", true, true},
		{TornReply, 1, "1", true, true},
		{FailedCommit, 1, "0", true, true},
		{LateReply, 1, "1", false, true},
		{StopBefore, 1, "1", false, true},
		{StopAfter, 1, "1", false, true},
	} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprint(test.kind, " reset=", reset), func(t *testing.T) {
				t.Parallel()
				p := newPair(t)
				pause := 50 * time.Millisecond
				if test.kind == Outage { // a ping falls into it, also on a busy machine
					pause = time.Second
				}
				p.set(Fault{Kind: test.kind, Pause: pause, Reset: reset})
				began := time.Now()
				rows, err := p.write()
				if rows != test.rows || (err != nil) != test.fails || test.fails && !pg.IsTransient(err) {
					t.Errorf("the caller saw %d rows and %v", rows, err)
				}
				if took := time.Since(began); !test.fails && took < pause {
					t.Errorf("it took %s", took)
				}
				p.eventually(test.written, p.written)
				if got := p.faults.String(); !strings.HasPrefix(got, "k=3 "+string(test.kind)+" at: begin; insert into t") {
					t.Error(got)
				}
				// A connection that was cut is not used again, and a dead process never gets
				// another one.
				_ = p.conn.Close()
				if test.kind == Outage {
					if err := p.faults.DB.PingContext(t.Context()); !pg.IsTransient(err) {
						t.Errorf("during the outage: %v", err)
					}
					p.eventually("true", func() string { return fmt.Sprint(p.faults.DB.PingContext(t.Context()) == nil) })
				}
				_, err = p.faults.DB.ExecContext(t.Context(), "insert into t values ('later')")
				if (err == nil) != test.goesOn || p.faults.Alive() != test.goesOn {
					t.Errorf("a later call returned %v", err)
				}
				if !test.goesOn {
					p.eventually("0", p.sessions)
				}
			})
		}
	}
}

func TestACrashEndsEverySessionAndRollsBackWhatItHadOpen(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tx, err := p.faults.DB.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "insert into t values ('open')"); err != nil {
		t.Fatal(err)
	}
	p.set(Fault{Kind: CrashAfter})
	if _, err := p.write(); err == nil {
		t.Error("the process went on")
	}
	select {
	case <-p.faults.Died():
	default:
		t.Error("it has not died")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a dead process committed")
	}
	p.eventually("0", p.sessions)
	if got := p.written(); got != "1" {
		t.Errorf("%s rows, want the one that was committed", got)
	}
	if n := len(p.faults.Trips()); n != 3 {
		t.Errorf("%d round trips, though it died at the third", n)
	}
}

func TestTheCommitOfAMessageThatBeginsAnotherTransactionFails(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.set(Fault{Kind: FailedCommit})
	_, err := p.conn.ExecContext(t.Context(), "begin; insert into t values ('x'); commit;\nbegin read write; select 1 as commit")
	if !pg.IsTransient(err) || p.written() != "0" {
		t.Errorf("%v, and %s rows", err, p.written())
	}
}

func TestACommitIsLostOrFailsAsTheFaultSays(t *testing.T) {
	t.Parallel()
	for kind, written := range map[Kind]string{CrashBefore: "0", CrashAfter: "1", Cut: "0", LostReply: "1", TornReply: "1", FailedCommit: "0"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.faults.Set(Fault{At: 3, Kind: kind})
			tx, err := p.conn.BeginTxx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "insert into t values ($1)", "x"); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); !pg.IsTransient(err) || !strings.HasSuffix(p.faults.String(), " at: commit") {
				t.Errorf("%v after %s", err, p.faults)
			}
			p.eventually(written, p.written)
		})
	}
}

func TestOfAStatementWithParametersTheReplyToTheWholeIsLost(t *testing.T) {
	t.Parallel()
	for _, reset := range []bool{false, true} {
		p := newPair(t)
		p.set(Fault{Kind: LostReply, Reset: reset})
		_, err := p.conn.ExecContext(t.Context(), "insert into t values ($1)", "x")
		if !pg.IsTransient(err) {
			t.Error(err)
		}
		p.eventually("1", p.written)
	}
}

func TestRoundTripsAreCountedByTheirTextsWhereTheFaultSaysSo(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.faults.Set(Fault{At: 2, Kind: Cut, Of: func(text string) bool { return text == "select ()" }})
	for i, query := range []string{"select 1", "select (7)", "select 2", "select (8)"} {
		_, err := p.conn.ExecContext(t.Context(), query)
		if (err != nil) != (i == 3) {
			t.Errorf("%s: %v", query, err)
		}
	}
	if k, text := p.faults.Hit(); k != 4 || text != "select ()" {
		t.Errorf("it happened at %d: %s", k, text)
	}
}

func TestAProcessThatStandsStillDoesSoOnEveryConnectionAndAlone(t *testing.T) {
	t.Parallel()
	for kind, late := range map[Kind]bool{LateReply: false, StopBefore: true, StopAfter: true} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			tx, err := p.faults.DB.BeginTxx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			const pause = time.Second
			p.set(Fault{Kind: kind, Pause: pause})
			began := time.Now()
			ended := make(chan error)
			go func() {
				_, err := p.write()
				ended <- err
			}()
			<-p.faults.Happened()
			for again := true; again; again = late && time.Since(began) < pause/2 { // it stands still a moment later
				if _, err := tx.ExecContext(t.Context(), "select 1"); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); (took >= pause) != late {
				t.Errorf("another connection of the process took %s", took)
			}
			if err := <-ended; err != nil || time.Since(began) < pause {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		})
	}
}

func TestSomebodyGoesFirstAndIsWaitedForAsLongAsTheFaultSays(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.set(Fault{Kind: SomebodyFirst, First: func() { p.db.MustExec("insert into t values ('first')") }})
	var v string
	if err := p.conn.GetContext(t.Context(), &v, "select v from t"); err != nil || v != "first" {
		t.Error(v, err)
	}
	hold, ended := make(chan struct{}), make(chan struct{})
	p.set(Fault{Kind: SomebodyFirst, Pause: time.Millisecond, First: func() { <-hold; close(ended) }})
	if _, err := p.write(); err != nil {
		t.Error(err)
	}
	close(hold)
	<-ended
}

func TestAConnectionIsRefusedOrLateWhereTheFaultIsThere(t *testing.T) {
	t.Parallel()
	for kind, fails := range map[Kind]bool{CrashBefore: true, Cut: true, LostReply: true, LateReply: false, StopBefore: false} {
		for _, reset := range []bool{false, true} {
			p := newPair(t)
			p.faults.Set(Fault{At: 1, Kind: kind, Pause: 50 * time.Millisecond, Reset: reset})
			began := time.Now()
			err := p.faults.DB.PingContext(t.Context()) // the only connection is taken
			if (err != nil) != fails || fails && !pg.IsTransient(err) {
				t.Errorf("%s: %v", kind, err)
			}
			if !fails && time.Since(began) < 50*time.Millisecond {
				t.Errorf("%s: after %s", kind, time.Since(began))
			}
		}
	}
}

// Every statement boundary of a transfer between two tables, with every fault: with a transaction
// that is repeated when nobody knows how it ended, and has a mark by which it knows itself, exactly
// one transfer is made.
func TestEveryBoundaryOfATransactionCanBeMetByEveryFault(t *testing.T) {
	t.Parallel()
	db := New(t)
	db.MustExec("create table account (id int primary key, amount int not null); create table mark (id text primary key)")
	url := urlOf(t, db)
	transfer := func(ctx context.Context, db *sqlx.DB, mark string) error {
		return pgsql.InTx(ctx, db, func(tx *sqlx.Tx) error {
			inserted, err := tx.ExecContext(ctx, "insert into mark values ($1) on conflict do nothing", mark)
			if err != nil {
				return err
			}
			if n, err := inserted.RowsAffected(); n == 0 || err != nil {
				return err
			}
			for id, change := range []int{-1, 1} {
				if _, err := tx.ExecContext(ctx, "update account set amount = amount + $1 where id = $2", change, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	tried := 0
	for _, kind := range []Kind{CrashBefore, CrashAfter, Cut, LostReply, TornReply, FailedCommit} {
		for k, reached := 1, true; reached; k++ {
			db.MustExec("truncate account, mark; insert into account values (0, 10), (1, 0)")
			f := OpenFaults(t, url, Unprepared)
			f.Set(Fault{At: k, Kind: kind, Reset: k%2 == 0})
			var err error
			for range 3 {
				if err = transfer(t.Context(), f.DB, "m"); err == nil || !f.Alive() {
					break
				}
			}
			if !f.Alive() {
				if err == nil {
					t.Errorf("%s: a dead process was told that it is done", f)
				}
				err = transfer(t.Context(), db, "m")
			}
			if amounts := get(t, db, "select string_agg(amount::text, ' ' order by id) from account"); err != nil || amounts != "9 1" {
				t.Errorf("%s: %s, %v", f, amounts, err)
			}
			reached = len(f.Trips()) >= k
			tried++
			_ = f.DB.Close()
		}
	}
	if tried < 5*6 {
		t.Errorf("%d cases", tried)
	}
}

func urlOf(t *testing.T, db *sqlx.DB) string {
	t.Helper()
	server, err := theFixture().server()
	if err != nil {
		t.Fatal(err)
	}
	return server.urlOf(get(t, db, "select current_database()"))
}

func TestADriverWithoutFaultsIsAsEver(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tx, err := p.faults.DB.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var level string
	if err := tx.GetContext(t.Context(), &level, "show transaction_isolation"); err != nil || level != "serializable" {
		t.Error(level, err)
	}
	if _, err := tx.ExecContext(t.Context(), "insert into t values ('x')"); err == nil {
		t.Error("a read-only transaction wrote")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a failed transaction was committed")
	}
	var list []int64
	rows, err := p.faults.DB.QueryContext(t.Context(), "select v from unnest($1::bigint[]) as v", []int64{3, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil || !slices.Equal(list, []int64{3, 1, 2}) {
		t.Error(list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.faults.DB.ExecContext(ctx, "select pg_sleep(60)"); err == nil {
		t.Error("a context that ended did not end the statement")
	}
	if err := p.faults.DB.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}
