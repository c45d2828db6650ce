package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/jobs"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// ward is a database that is looked at.
type ward struct {
	t   *testing.T
	url string
	db  *sqlx.DB
	Config
}

func setup(t *testing.T) *ward { return setupOn(t, pgtest.URL(t)) }

func setupOn(t *testing.T, url string) *ward {
	t.Helper()
	w := &ward{t: t, url: url, db: open(t, url)}
	w.Config = Config{DB: w.db, Name: "orders", Connections: 13, Early: 5 * time.Second, Knows: func(string) bool { return false }}
	return w
}

func open(t *testing.T, url string, opts ...pgsql.Option) *sqlx.DB {
	t.Helper()
	db, err := pgsql.Open(t.Context(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (w *ward) exec(statement string) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), statement); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

func (w *ward) look() []Finding {
	w.t.Helper()
	found, err := Examine(w.t.Context(), w.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// has tells whether a check has found something of which the text has a part.
func has(found []Finding, name string, severity Severity, part string) bool {
	return slices.ContainsFunc(found, func(f Finding) bool {
		return f.Name == name && f.Severity == severity && strings.Contains(f.What+" do: "+f.Do, part)
	})
}

func TestEachFindingAppearsAndGoesAway(t *testing.T) {
	t.Parallel()
	// The table of the last month has the place of MONTH.
	const last = `select max(relname) from pg_class where relname ~ '^future_job_history_[0-9]{6}$'`
	for name, test := range map[string]struct {
		check    string
		severity Severity
		part     string
		bring    string // brings it about
		mend     string // empty: the finding's own remedy, which is SQL
		change   func(*Config)
	}{
		"connections of the database": {
			"connections", Action, "room for", `do $$ begin execute format('alter database %I connection limit 5', current_database()); end $$`,
			`do $$ begin execute format('alter database %I connection limit -1', current_database()); end $$`, nil,
		},
		"a schema that is missing something": {
			"migrations", Action, "orders migrate up", `update prescient.setting set schema_version = 0`,
			`update prescient.setting set schema_version = ` + strconv.Itoa(pgsql.SchemaVersion), nil,
		},
		"a schema of newer code": {
			"migrations", Action, "install a newer version of this binary", `update prescient.setting set min_code_version = 1000`,
			`update prescient.setting set min_code_version = 1`, nil,
		},
		"a schema where everybody may create": {
			"rights", Action, `revoke create on schema "public" from public`, `grant create on schema public to public`, ``, nil,
		},
		"a table without autovacuum": {
			"tables", Action, "alter table prescient.job reset (autovacuum_enabled)", `alter table prescient.job set (autovacuum_enabled = false)`,
			``, nil,
		},
		"a table that is too big": {
			"tables", Note, "vacuum full prescient.job", `insert into prescient.job (job, name) select n, repeat('n', 190) || n from generate_series(1, 1000) as n;
				delete from prescient.job; analyze prescient.job`,
			``, func(c *Config) { c.Bytes = 100_000 },
		},
		"a month that is missing": {
			"months", Action, "select prescient.make_history_months()", `drop table prescient.MONTH`,
			``, nil,
		},
		"a relation with the name of a month": {
			"months", Action, "prescient.MONTH has the name of a month", `drop table prescient.MONTH; create view prescient.MONTH as select 1`,
			``, nil,
		},
		"rows without a month": {
			"months", Note, "select prescient.make_history_month('2099-01-01T00:00:01Z')", `insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot,
				check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
				values (1, 'job', 'order', '1', now(), now(), 0, 0, '0', now(), 'me', 'done', '2099-01-01 00:00:01Z')`,
			// The operator may type it in a zone where the month has begun already.
			`begin; set local timezone = 'Asia/Kolkata'; select prescient.make_history_month('2099-01-01T00:00:01Z'); commit`, nil,
		},
		"a job that nobody knows": {
			"jobs", Action, "orders jobs list --job strange", `select prescient.enqueue('strange', 'order', '1', check_at => '2099-01-01')`,
			`select prescient.cancel('strange', 'order', '1')`, nil,
		},
		"a prepared transaction": {
			"holders", Action, "rollback prepared 'left behind'", `begin; create table public.left_behind (); prepare transaction 'left behind'`,
			``, func(c *Config) { c.Old = time.Microsecond },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a table that is too big" {
				pgtest.NotOnCitus(t, "the statistics of a table are those of its worker")
			}
			w := setup(t)
			if test.change != nil {
				test.change(&w.Config)
			}
			var month string
			if err := w.db.Get(&month, last); err != nil {
				t.Fatal(err)
			}
			test.part = strings.ReplaceAll(test.part, "MONTH", month)
			if found := w.look(); has(found, test.check, test.severity, test.part) {
				t.Fatalf("it is there before: %+v", found)
			}
			w.exec(strings.ReplaceAll(test.bring, "MONTH", month))
			found := w.look()
			i := slices.IndexFunc(found, func(f Finding) bool { return has([]Finding{f}, test.check, test.severity, test.part) })
			if i < 0 {
				t.Fatalf("it is not found: %+v", found)
			}
			remedy, _, _ := strings.Cut(found[i].Do, "  -- ")
			// Vacuum keeps rows that a transaction which began before may still see, such as one of a server's own
			// workers.
			deadline := time.Now().Add(await.Limit)
			for {
				w.exec(cmp.Or(test.mend, remedy))
				found := w.look()
				if !has(found, test.check, test.severity, test.part) {
					break
				}
				if test.mend != "" || time.Now().After(deadline) {
					t.Fatalf("it is still there: %+v", found)
				}
			}
		})
	}
}

// In the eyes of a session that finds another version() before PostgreSQL's, one that lacks what the other checks ask for.
func TestAnEngineThatIsRefusedIsTheOneFinding(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`create schema engine;
		create function engine.version() returns text language sql as $$ select 'CockroachDB CCL v26.2.5 (x86_64-pc-linux-gnu, built 2026/07/28 18:56:00, go1.25.5)' $$;
		create function engine.pg_is_in_recovery() returns boolean language plpgsql as $$ begin raise exception 'unknown function: pg_is_in_recovery()'; end $$`)
	if found := w.look(); has(found, "engine", Action, "") {
		t.Errorf("PostgreSQL is refused: %+v", found)
	}
	w.DB = open(t, w.url, pgsql.Param("search_path", "engine, pg_catalog"))
	if found := w.look(); len(found) != 1 || !has(found, "engine", Action, "the server is CockroachDB") || !has(found, "engine", Action, "docs/databases.md") {
		t.Errorf("%+v", found)
	}
}

func TestRowSecurityOnTablesOfPrescientIsFoundUntilItIsOff(t *testing.T) {
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	t.Parallel()
	w := setup(t)
	w.exec(`create role hidden_rows login; grant usage on schema prescient to hidden_rows;
		grant all on all tables in schema prescient to hidden_rows;
		grant execute on all functions in schema prescient to hidden_rows`)
	pgtest.DropRoles(t, w.DB, "hidden_rows")
	w.exec(`create table prescient.orders ()`)
	loop := func(enable string) string {
		return `do $$ declare name regclass; begin
			for name in select oid from pg_class where relnamespace = 'prescient'::regnamespace and relkind in ('r', 'p') loop
				execute format('alter table %s ` + enable + ` row level security', name); end loop; end $$`
	}
	if found := w.look(); has(found, "row security", Action, "") {
		t.Errorf("it is off: %+v", found)
	}
	w.exec(loop("enable"))
	owner := w.DB
	w.DB = open(t, w.url, pgsql.Param("role", "hidden_rows"))
	found := w.look()
	if !has(found, "row security", Action, "alter table prescient.future_job disable row level security") ||
		!has(found, "row security", Action, "future_job_history_rest") || has(found, "row security", Action, "orders") {
		t.Errorf("%+v", found)
	}
	for _, f := range found {
		if f.Name == "row security" {
			do, _, _ := strings.Cut(f.Do, "  --")
			w.DB = owner
			w.exec(do)
		}
	}
	w.exec(`drop table prescient.orders`)
	w.exec(`select prescient.make_history_month('2031-03-01'); alter table prescient.future_job_history_203103 enable row level security`)
	w.DB = open(t, w.url, pgsql.Param("role", "hidden_rows"))
	if found := w.look(); has(found, "row security", Action, "") || has(found, "ahead", Note, "") {
		t.Errorf("afterwards: %+v", found)
	}
}

func TestACollationOfAnotherVersionIsFoundUntilItIsRefreshed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`create collation swiss (provider = icu, locale = 'de-CH');
		create table customer (name text collate swiss primary key)`)
	if found := w.look(); has(found, "collation", Action, "") {
		t.Errorf("%+v", found)
	}
	w.exec(`update pg_collation set collversion = '1' where collname = 'swiss'`)
	const mends = "reindex table public.customer; alter collation public.swiss refresh version"
	if found := w.look(); !has(found, "collation", Action, mends) || !has(found, "collation", Action, "had version 1, and the system has") {
		t.Errorf("%+v", found)
	}
	for statement := range strings.SplitSeq(mends, "; ") {
		w.exec(statement)
	}
	if found := w.look(); has(found, "collation", Action, "") {
		t.Errorf("afterwards: %+v", found)
	}
}

func TestAnOldTransactionIsFoundUntilItEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Old = time.Microsecond
	tx, err := open(t, w.url).BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var pid int
	if err := tx.Get(&pid, "select pg_backend_pid() where pg_current_xact_id() is not null"); err != nil {
		t.Fatal(err)
	}
	mends := "select pg_terminate_backend(" + strconv.Itoa(pid) + ")"
	if found := w.look(); !has(found, "holders", Action, mends) {
		t.Errorf("%+v", found)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if found := w.look(); has(found, "holders", Action, mends) {
		t.Errorf("it has ended: %+v", found)
	}
}

func TestDeadRowsAreFoundUntilVacuumHasBeenThere(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the statistics of a table are those of its worker")
	w := setup(t)
	w.Dead = 50
	w.exec(`insert into prescient.job (job, name) select n, n::text from generate_series(1, 100) as n`)
	w.exec(`delete from prescient.job`)
	const part = "vacuum (verbose, analyze) prescient.job"
	for deadline := time.Now().Add(await.Limit); !has(w.look(), "tables", Action, part); time.Sleep(50 * time.Millisecond) { // the server counts now and then
		if time.Now().After(deadline) {
			t.Fatal("100 dead rows were not found")
		}
	}
	w.exec(`vacuum prescient.job`)
	for deadline := time.Now().Add(await.Limit); has(w.look(), "tables", Action, part); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("dead rows were found after vacuum")
		}
	}
}

// As after a crash or a failover: the server counts from the next analyze on.
func TestATableWhoseRowsTheServerHasForgottenIsNotFullOfDeadRows(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "the statistics of a table are those of its worker")
	w := setup(t)
	w.Bytes = 8192
	w.exec(`insert into prescient.job (job, name) select n, n::text from generate_series(1, 1000) as n`)
	w.exec(`analyze prescient.job`)
	w.exec(`select pg_stat_reset_single_table_counters('prescient.job'::regclass)`)
	if found := w.look(); has(found, "tables", Note, "prescient.job takes") {
		t.Errorf("%+v", found)
	}
}

// No session waits for the snapshot of vacuum, and to end it makes things worse.
func TestVacuumHoldsBackNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.Old = time.Microsecond
	w.exec(`insert into prescient.job (job, name) select n, n::text from generate_series(1, 20000) as n`)
	w.exec(`delete from prescient.job`)
	conn, err := open(t, w.url).Connx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := conn.GetContext(t.Context(), &pid, "select pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = conn.ExecContext(ctx, "set vacuum_cost_delay = '100ms'")
		_, _ = conn.ExecContext(ctx, "set vacuum_cost_limit = 1")
		_, _ = conn.ExecContext(ctx, "vacuum prescient.job")
	}()
	defer func() {
		end()
		<-ended
		_ = conn.Close()
	}()
	works := func() (is bool) {
		err := open(t, w.url).Get(&is, `select exists (select from pg_stat_progress_vacuum v join pg_stat_activity a using (pid)
			where v.pid = $1 and a.backend_xmin is not null)`, pid)
		return err == nil && is
	}
	await.True(t, "vacuum to work", works)
	found := w.look()
	if !works() {
		t.Skip("vacuum has ended before the look")
	}
	if has(found, "holders", Action, strconv.Itoa(pid)) {
		t.Errorf("%+v", found)
	}
}

func TestATableOfAnApplicationInTheSchemaIsNoFinding(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`create table prescient.orders () with (autovacuum_enabled = off)`)
	w.exec(`alter table prescient.future_job_history_rest set (autovacuum_enabled = off)`)
	if found := w.look(); has(found, "tables", Action, "orders") || !has(found, "tables", Action, "future_job_history_rest") {
		t.Errorf("%+v", found)
	}
}

func TestAJobThatTheBinaryHasIsNoFinding(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`select prescient.enqueue(name, 'order', '1', check_at => '2099-01-01') from unnest('{known,strange}'::text[]) as name`)
	w.Knows = func(job string) bool { return job == "known" }
	found := w.look()
	if has(found, "jobs", Action, "job known") || !has(found, "jobs", Action, "job strange") {
		t.Errorf("%+v", found)
	}
}

func TestAJobThatARunOfAnotherBinaryHasIsNoFinding(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`select prescient.enqueue('theirs', 'order', '1', check_at => '2099-01-01')`)
	w.exec(`update prescient.job set registered_at = now() - interval '8 days'`)
	if found := w.look(); !has(found, "jobs", Action, "job theirs") {
		t.Errorf("its runs have ended: %+v", found)
	}
	w.exec(`select prescient.register_jobs('{theirs}', '{null}', false)`)
	if found := w.look(); has(found, "jobs", Action, "") {
		t.Errorf("%+v", found)
	}
}

func TestAPeriodicFunctionThatChangedOrIsGoneIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	fn := func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }
	old := jobs.NewRegistry()
	old.Periodic("report", "0 9 * * *", jobs.Row(fn))
	old.Periodic("same", "0 9 * * *", jobs.Row(fn))
	old.Periodic("gone", "0 9 * * *", jobs.Row(fn))
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{})
	if err == nil {
		err = client.EnqueuePeriodic(reserved.Caller{}, t.Context(), w.db, old)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Registry = jobs.NewRegistry()
	w.Registry.Periodic("report", "0 10 * * *", jobs.Row(fn))
	w.Registry.Periodic("same", "0 9 * * *", jobs.Row(fn))
	w.Registry.Periodic("fresh", "0 9 * * *", jobs.Row(fn))
	found := w.look()
	for _, text := range []string{"report waits by", "gone waits for", "fresh has no row"} {
		if !has(found, "periodic", Note, text) {
			t.Errorf("not found: %s: %+v", text, found)
		}
	}
	if has(found, "periodic", Note, "same") {
		t.Errorf("%+v", found)
	}
}

func TestRightsThatAreMissingAreFoundWithTheGrantThatGivesThem(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "there are no roles; see docs/citus.md")
	const schema = pgsql.Schema("doctor_rights")
	w := setup(t)
	pgtest.DropRoles(t, w.db, "doctor_rights_")
	w.Schema = schema
	if found := w.look(); has(found, "rights", Note, "superuser") {
		t.Errorf("there is no schema to have rights in: %+v", found)
	}
	if err := errors.Join(pgsql.Migrate(t.Context(), w.db, schema), pgsql.MakeRoles(t.Context(), w.db, schema)); err != nil {
		t.Fatal(err)
	}
	if found := w.look(); !has(found, "rights", Note, "superuser") {
		t.Errorf("a superuser: %+v", found)
	}
	w.exec(`create role doctor_rights_cron`)
	w.DB = open(t, w.url, pgsql.Param("role", "doctor_rights_cron"))
	if found := w.look(); !has(found, "rights", Action, `grant doctor_rights_runner to "doctor_rights_cron"`) || !has(found, "months", Note, "doctor_rights_reader") ||
		!has(found, "sessions", Note, "pg_read_all_stats") {
		t.Errorf("nobody: %+v", found)
	}
	w.exec(`grant doctor_rights_runner to doctor_rights_cron`)
	found := w.look()
	if has(found, "rights", Action, "") || has(found, "rights", Note, "") || has(found, "months", Note, "") {
		t.Errorf("a runner, which needs no more: %+v", found)
	}
	w.exec(`create role doctor_rights_janitor;
		select doctor_rights.set_schedule('purge', '@daily', sql => 'select 1', role => 'doctor_rights_janitor')`)
	if found := w.look(); !has(found, "schedules", Action, `grant "doctor_rights_janitor" to "doctor_rights_cron"`) {
		t.Errorf("a statement as a role that the runner may not take: %+v", found)
	}
	w.exec(`grant doctor_rights_janitor to doctor_rights_cron`)
	if found := w.look(); has(found, "schedules", Action, "") {
		t.Errorf("a statement as a role that the runner may take: %+v", found)
	}
	w.exec(`drop role doctor_rights_janitor`)
	if found := w.look(); !has(found, "schedules", Action, "schedule purge: there is no role") {
		t.Errorf("a statement as a role that was dropped: %+v", found)
	}
	w.exec(`grant doctor_rights_operator, pg_read_all_stats to doctor_rights_cron`)
	found = w.look()
	if has(found, "rights", Note, "") || has(found, "sessions", Note, "") {
		t.Errorf("an operator who sees the sessions: %+v", found)
	}
	w.exec(`alter table doctor_rights.job set (autovacuum_enabled = false)`)
	if found := w.look(); !has(found, "tables", Action, "reset (autovacuum_enabled)  -- as a member of doctor_rights_owner") {
		t.Errorf("a table of the owner: %+v", found)
	}
	w.exec(`create function doctor_rights.open_slot(integer) returns integer language sql as 'select 1';
		revoke all on function doctor_rights.open_slot(integer) from public`)
	if found := w.look(); has(found, "rights", Action, "") {
		t.Errorf("a function of an application has the name of one of prescient: %+v", found)
	}
}

// The server of the tests has no autovacuum, unless it is somebody's cluster; one of its own has, and may become a standby.
func TestAServerIsToldWhatItLacks(t *testing.T) {
	t.Parallel()
	if found := setup(t).look(); !pgtest.OnCitus() && !has(found, "settings", Action, "alter system set autovacuum = on") {
		t.Errorf("autovacuum is off: %+v", found)
	}
	server := pgtest.Private(t, nil)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := setupOn(t, server.SuperuserURL())
	if err := pgsql.Migrate(t.Context(), w.db, ""); err != nil {
		t.Fatal(err)
	}
	if found := w.look(); has(found, "settings", Action, "") || has(found, "settings", Note, "") || has(found, "standby", Action, "") {
		t.Errorf("a private server: %+v", found)
	}
	w.DB = open(t, server.SuperuserURL(), pgsql.Param("wal_compression", "off"))
	if found := w.look(); !has(found, "settings", Note, "wal_compression is off") {
		t.Errorf("wal_compression is off: %+v", found)
	}
	w.exec(others + orders)
	w.apply()
	if err := w.DB.Close(); err != nil {
		t.Fatal(err)
	}
	pgtest.StandBy(t, server)
	w.DB = open(t, server.SuperuserURL())
	if found := w.look(); !has(found, "standby", Action, "primary") {
		t.Errorf("a standby: %+v", found)
	}
}

func TestSettingsOfTheSessionWithWhichRunsFailAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, value, text, mends string }{
		{"default_transaction_isolation", "repeatable read", "begin at repeatable read", "set default_transaction_isolation = 'read committed'"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			if found := w.look(); has(found, "settings", Action, test.mends) {
				t.Errorf("as it should be: %+v", found)
			}
			w.DB = open(t, w.url, pgsql.Param(test.name, test.value))
			if found := w.look(); !has(found, "settings", Action, test.mends) || !has(found, "settings", Action, test.text) {
				t.Errorf("%s = %s: %+v", test.name, test.value, found)
			}
		})
	}
}

func TestAClockThatIsOffIsFound(t *testing.T) {
	t.Parallel()
	const early = 5 * time.Second
	for _, test := range []struct {
		most, least time.Duration // the database is ahead of this machine
		severity    Severity
		part        string
	}{
		{time.Second / 2, -time.Second / 2, "", ""},
		{10 * time.Second, -10 * time.Second, "", ""}, // a slow network says nothing
		{3 * time.Second, 2 * time.Second, Note, "behind the database's by 2s"},
		{time.Hour, time.Hour, Note, "behind"},
		{-2 * time.Second, -3 * time.Second, Note, "ahead of the database's by 2s"},
		{-6 * time.Second, -7 * time.Second, Action, "ahead of the database's by 6s"},
	} {
		found := offset(test.most, test.least, early)
		if test.severity == "" && len(found) > 0 || test.severity != "" && !has(found, "", test.severity, test.part) {
			t.Errorf("ahead by %s to %s: %+v", test.least, test.most, found)
		}
	}
}

// A job whose name has the number of an order in it is one more job with each order.
func TestTheFirstOfManyUnknownJobsHaveAFindingEach(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(`select prescient.enqueue('order.' || n, 'order', '1', check_at => '2099-01-01') from generate_series(1, 1000) as n`)
	size, named := 0, 0
	found := w.look()
	for _, f := range found {
		size += len(f.What) + len(f.Do)
		if f.Name == "jobs" {
			named++
		}
	}
	if named != 21 || size > 20_000 || !has(found, "jobs", Action, "rows of 980 more such jobs wait") {
		t.Errorf("%d findings of %d bytes", named, size)
	}
}
