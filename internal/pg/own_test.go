package pg_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A serializable transaction that only reads and is deferrable would wait for the one that writes.
func TestTransactionsOfPrescientHaveTheirOwnSettingsWhateverTheRoleHasSet(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	writes := begin(t, open(t, url, pgsql.Param("default_transaction_isolation", "serializable")))
	exec(t, writes, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
	db := open(t, url,
		pgsql.Param("default_transaction_isolation", "serializable"), pgsql.Param("default_transaction_deferrable", "on"),
		pgsql.Param("default_transaction_read_only", "on"), pgsql.Param("row_security", "on"), pgsql.Param("search_path", "nowhere"))
	const settings = `select array_to_string(array[
		current_setting('transaction_isolation'), current_setting('transaction_deferrable'),
		current_setting('transaction_read_only'), current_setting('row_security'), current_setting('search_path')], ' ')`
	got := map[string]string{}
	read := func(name string) func(tx *sqlx.Tx) error {
		return func(tx *sqlx.Tx) error { got[name] = get[string](t, tx, settings); return nil }
	}
	add := func(name string) *pg.Message {
		var m pg.Message
		m.Add(settings, nil, func(row *sql.Rows) error {
			var text string
			err := row.Scan(&text)
			got[name] = text
			return err
		})
		return &m
	}
	plain, err := sqlx.Connect("postgres", url+"&default_transaction_isolation=serializable&default_transaction_deferrable=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	if err := errors.Join(
		pgsql.InTx(t.Context(), db, read("InTx")),
		pgsql.ReadTx(t.Context(), db, read("ReadTx")),
		pg.SnapshotTx(t.Context(), db, read("SnapshotTx")),
		pg.SerializableTx(t.Context(), db, read("SerializableTx")),
		pgsql.ReadTx(t.Context(), plain, read("ReadTx of a plain pool")),
		add("Commit").Commit(t.Context(), db, "set local jit = off"),
		add("Read").Read(t.Context(), db),
	); err != nil {
		t.Error(err)
	}
	want := map[string]string{
		"InTx":                   "read committed off off off nowhere",
		"ReadTx":                 "read committed off on off nowhere",
		"SnapshotTx":             "repeatable read off on off nowhere",
		"SerializableTx":         "serializable off off off nowhere",
		"ReadTx of a plain pool": `read committed on on off "$user", public`,
		"Commit":                 "read committed off off off pg_catalog, pg_temp",
		"Read":                   "read committed off on off nowhere",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := writes.Rollback(); err != nil {
		t.Fatal(err)
	}
	unknown := &sql.TxOptions{Isolation: sql.LevelSnapshot}
	if tx, err := db.BeginTxx(pg.Own(t.Context()), unknown); err == nil {
		t.Errorf("a level that prescient does not use is begun as another one: %v", tx.Rollback())
	}
	if after := get[string](t, db, settings); after != "serializable on on on nowhere" {
		t.Errorf("the session has %q afterwards", after)
	}
}

// A limit that a database has for its applications ends no command in its middle, and none of its transactions.
func TestNoSettingOfADatabaseEndsAStatementOrATransactionOfPrescient(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			before := open(t, url)
			if get[sql.NullString](t, before, "select current_setting($1, true)", name).String == "" {
				t.Skip("PostgreSQL before version 17 has no such setting; make test-versions tests later ones")
			}
			exec(t, before, `do $$ begin execute format('alter database %I set `+name+` = 7000', current_database()); end $$`)
			db := open(t, url)
			plain, err := sqlx.Connect("postgres", url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = plain.Close() })
			if is := get[string](t, db, "select current_setting($1)", name); is != "7s" {
				t.Fatalf("the sessions have %s", is)
			}
			lifted := func(tx *sqlx.Tx) error {
				if is := get[string](t, tx, "select current_setting($1)", name); is != "0" {
					t.Errorf("a transaction has %s", is)
				}
				return nil
			}
			for range 2 { // the first one of a connection finds out which settings there are
				if err := errors.Join(
					pgsql.InTx(t.Context(), db, lifted), pgsql.ReadTx(t.Context(), db, lifted), pg.SerializableTx(t.Context(), db, lifted),
					pgsql.InTx(t.Context(), plain, lifted), pgsql.ReadTx(t.Context(), plain, lifted),
				); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRowSecurityOnTablesOfPrescientIsAnErrorAndHidesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
	exec(t, db, `
		create role row_security_app; create role row_security_runner; create role row_security_owner;
		grant usage on schema prescient to row_security_app, row_security_runner;
		grant execute on all functions in schema prescient to row_security_app, row_security_runner, row_security_owner;
		grant all on all tables in schema prescient to row_security_runner;
		alter schema prescient owner to row_security_owner`)
	pgtest.DropRoles(t, db, "row_security")
	exec(t, db, `
		do $$
		declare
			name regclass;
			routine regprocedure;
		begin
			for name in select oid from pg_class where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p') loop
				execute format('alter table %s owner to row_security_owner', name);
				execute format('alter table %s enable row level security', name);
				execute format('alter table %s force row level security', name);
			end loop;
			for routine in select oid from pg_proc where pronamespace = 'prescient'::regnamespace and prosecdef loop
				execute format('alter function %s owner to row_security_owner', routine);
			end loop;
		end
		$$`)
	for query, role := range map[string]string{
		"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')":                                      "app",
		"select prescient.enqueue_many('{remind}', '{order}', '{1}', item_keys => '{\"\"}', check_ats => '{2030-03-01}')": "app",
		"select prescient.cancel('remind', 'order', '1')":                                                                 "app",
		"select prescient.cancel_entity('order', '1')":                                                                    "app",
		"select prescient.reschedule('remind', 'order', '1', check_at => '2030-03-05')":                                   "app",
		"select prescient.push_back('remind', 'order', '1', check_at => '2030-03-05')":                                    "app",
		"select * from prescient.why('order', '1')":                                                                       "runner",
		"select prescient.begin_check(('2030-03-01', prescient.find_job('remind'), 1, false, '', '1s', '1s', ''))":        "runner",
	} {
		tx := begin(t, db)
		exec(t, tx, "set local role row_security_"+role)
		if _, err := tx.ExecContext(t.Context(), query); !pg.IsRowSecurity(err) || !errors.Is(pg.ExplainMissing(err), pgsql.ErrRowSecurity) {
			t.Errorf("%s: %v", query, err)
		}
		_ = tx.Rollback()
	}
	for name, begins := range map[string]func(fn func(tx *sqlx.Tx) error) error{
		"InTx":   func(fn func(tx *sqlx.Tx) error) error { return pgsql.InTx(t.Context(), db, fn) },
		"ReadTx": func(fn func(tx *sqlx.Tx) error) error { return pgsql.ReadTx(t.Context(), db, fn) },
	} {
		if err := begins(func(tx *sqlx.Tx) error {
			exec(t, tx, "set local role row_security_runner")
			_, err := tx.ExecContext(t.Context(), "select from prescient.future_job")
			return err
		}); !pg.IsRowSecurity(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var m pg.Message
	m.Do("set local role row_security_runner")
	m.Add(pg.SlotOpen.In(pgsql.DefaultSchema), []any{"2030-03-01 12:00:00Z", "run", 1, "me", 1, "2030-03-01 12:00:00Z", 1, false}, nil)
	if err := m.Commit(t.Context(), db, "set local jit = off"); !pg.IsRowSecurity(err) {
		t.Errorf("a run: %v", err)
	}
}
