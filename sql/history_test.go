package sql_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// end puts a row into history as if it had ended at an instant.
func end(t *testing.T, db *sqlx.DB, instants ...string) {
	t.Helper()
	for _, at := range instants {
		exec(t, db, `insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count, error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
			values (1, 'remind', 'order', $1::text, now(), now(), 1, 0, '0', now(), 'me', 'done', $1::text::timestamptz)`, at)
	}
}

// places lists the partition of each row.
func places(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	return list(t, db, "select entity_key || ' ' || relname from prescient.future_job_history h join pg_class c on c.oid = h.tableoid order by finished_at")
}

func TestMonthsBeginAndEndInUTCInEveryTimeZoneOfTheSession(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			db := inZone(t, zone)
			for _, step := range [][2]string{
				{"2031-02-28 23:59:59.999999Z", "future_job_history_203102"},
				{"2031-03-01 00:00:00Z", "future_job_history_203103"},
				{"2031-04-01 00:00:00+13", ""}, // March in UTC
				{"2031-12-31 23:00:00-05", "future_job_history_203201"},
			} {
				if got := get[string](t, db, "select coalesce(prescient.make_history_month($1), '')", step[0]); got != step[1] {
					t.Errorf("month of %s: %q, want %q", step[0], got, step[1])
				}
			}
			end(t, db, "2031-01-31 23:59:59.999999Z", "2031-02-01 00:00:00Z", "2031-02-28 23:59:59.999999Z", "2031-03-01 00:00:00Z",
				"2031-03-31 23:59:59.999999Z", "2031-04-01 00:00:00Z", "2032-01-01 00:00:00Z", "2032-01-31 23:59:59.999999Z")
			want := []string{
				"2031-01-31 23:59:59.999999Z future_job_history_rest",
				"2031-02-01 00:00:00Z future_job_history_203102",
				"2031-02-28 23:59:59.999999Z future_job_history_203102",
				"2031-03-01 00:00:00Z future_job_history_203103",
				"2031-03-31 23:59:59.999999Z future_job_history_203103",
				"2031-04-01 00:00:00Z future_job_history_rest",
				"2032-01-01 00:00:00Z future_job_history_203201",
				"2032-01-31 23:59:59.999999Z future_job_history_203201",
			}
			if diff := cmp.Diff(want, places(t, db)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The date styles SQL and German write a zone as its abbreviation. The server may read it as
// another zone: IST is read as Israel's.
func TestMonthsBeginAndEndInUTCInEveryDateStyleOfTheSession(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	for _, style := range []string{"ISO, MDY", "SQL, DMY", "German, DMY", "Postgres, MDY"} {
		db := inZone(t, "Asia/Kolkata")
		tx := begin(t, db)
		exec(t, tx, "select set_config('datestyle', $1, true)", style)
		exec(t, tx, "select prescient.make_history_month('2031-03-01 00:00:00+00')")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		end(t, db, "2031-02-28 23:59:59.999999Z", "2031-03-01 00:00:00Z", "2031-03-31 23:59:59.999999Z", "2031-04-01 00:00:00Z")
		want := []string{
			"2031-02-28 23:59:59.999999Z future_job_history_rest",
			"2031-03-01 00:00:00Z future_job_history_203103",
			"2031-03-31 23:59:59.999999Z future_job_history_203103",
			"2031-04-01 00:00:00Z future_job_history_rest",
		}
		if diff := cmp.Diff(want, places(t, db)); diff != "" {
			t.Errorf("%s: %s", style, diff)
		}
	}
}

func TestThisMonthAndTheNextTwoAreThere(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			db := inZone(t, zone)
			const months = `select 'future_job_history_' || to_char(date_trunc('month', clock_timestamp() at time zone 'UTC') + n * interval '1 month', 'YYYYMM')
				from generate_series(0, 2) as n order by n`
			want, made, again := list(t, db, months), []string{}, []string{}
			for ended := true; ended; { // the month may end meanwhile
				exec(t, db, "select prescient.drop_history_months('9999-01-01')")
				made = list(t, db, "select prescient.make_history_months()")
				again = list(t, db, "select prescient.make_history_months()")
				was := want
				want = list(t, db, months)
				ended = !slices.Equal(was, want)
			}
			if diff := cmp.Diff(want, made); diff != "" {
				t.Error(diff)
			}
			if len(again) > 0 {
				t.Errorf("made again: %v", again)
			}
		})
	}
}

// A login without any privilege in the schema can hold an advisory lock.
func TestAMonthIsMadeWhileAdvisoryLocksAreHeld(t *testing.T) {
	t.Parallel()
	db := inZone(t, "UTC")
	foreign := begin(t, db)
	exec(t, foreign, "select pg_advisory_xact_lock(hashtextextended('prescient.future_job_history', 0))")
	if made := get[string](t, db, "select coalesce(prescient.make_history_month('2031-03-15'), 'none')"); made != "future_job_history_203103" {
		t.Errorf("made %s", made)
	}
}

func TestARelationWithTheNameOfAMonthIsNoPartition(t *testing.T) {
	t.Parallel()
	base, err := pq.NewConnector(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	db := sqlx.NewDb(sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) {
		warnings = append(warnings, notice.Severity+": "+notice.Message)
	})), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	exec(t, db, "create view prescient.future_job_history_203103 as select 1")
	if made := get[string](t, db, "select coalesce(prescient.make_history_month('2031-03-15'), 'none')"); made != "none" {
		t.Errorf("made %s", made)
	}
	want := []string{"WARNING: prescient.future_job_history_203103 is no partition of future_job_history, which needs the name"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	exec(t, db, "alter table prescient.future_job_history_203103 rename to other")
	if made := get[string](t, db, "select prescient.make_history_month('2031-03-15')"); made != "future_job_history_203103" {
		t.Errorf("made %s", made)
	}
}

func TestRowsOfTheDefaultPartitionMoveIntoAMonthThatIsMadeLater(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	db := inZone(t, "Pacific/Auckland")
	end(t, db, "2031-02-28 23:59:59.999999Z", "2031-03-01 00:00:00Z", "2031-03-31 23:59:59.999999Z", "2031-04-01 00:00:00Z")
	exec(t, db, "select prescient.make_history_month('2031-03-15')")
	want := []string{
		"2031-02-28 23:59:59.999999Z future_job_history_rest",
		"2031-03-01 00:00:00Z future_job_history_203103",
		"2031-03-31 23:59:59.999999Z future_job_history_203103",
		"2031-04-01 00:00:00Z future_job_history_rest",
	}
	if diff := cmp.Diff(want, places(t, db)); diff != "" {
		t.Error(diff)
	}
	// A month made later equals one that was there from the start.
	const same = `select count(*) from pg_indexes where schemaname = 'prescient' and tablename = 'future_job_history_203103'`
	if n := get[int](t, db, same); n != 3 {
		t.Errorf("%d indexes", n)
	}
	refused(t, db, pqerror.CheckViolation, "update prescient.future_job_history set outcome = 'vanished'")
}

// This happens after months without a run: the first run makes the month while applications go on.
func TestARowThatEndsWhileItsMonthIsMadeGoesThere(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	db := inZone(t, "UTC")
	exec(t, db, "select prescient.drop_history_months('9999-01-01')")
	exec(t, db, "select prescient.enqueue('remind', 'order', 'first', check_at => '2099-01-01'), prescient.enqueue('remind', 'order', 'second', check_at => '2099-01-01')")
	exec(t, db, "select prescient.cancel('remind', 'order', 'first')")
	maker := begin(t, db)
	month := get[string](t, maker, "select prescient.make_history_month(clock_timestamp())")
	cancelled := make(chan error)
	go func() {
		_, err := db.ExecContext(t.Context(), "select prescient.cancel('remind', 'order', 'second')")
		cancelled <- err
	}()
	pgtest.AwaitWaits(t, db, 1)
	if err := maker.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"first " + month, "second " + month}, places(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestPruneDropsWholeMonthsAndOnlyThose(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	for _, test := range []struct {
		before string
		want   []string
		left   int
	}{
		{"2030-01-01 00:00:00Z", nil, 6},
		{"2031-01-31 23:59:59.999999Z", []string{"future_job_history_rest 1"}, 5},
		{"2031-02-01 00:00:00Z", []string{"future_job_history_203101 2", "future_job_history_rest 1"}, 3},
		{"2031-02-28 23:59:59.999999Z", []string{"future_job_history_203101 2", "future_job_history_rest 1"}, 3},
		{"2031-02-28 19:00:00-05", []string{"future_job_history_203101 2", "future_job_history_203102 1", "future_job_history_rest 1"}, 2},
		{"2031-04-01 00:00:00Z", []string{"future_job_history_203101 2", "future_job_history_203102 1", "future_job_history_203103 1", "future_job_history_rest 1"}, 1},
	} {
		t.Run(test.before, func(t *testing.T) {
			t.Parallel()
			for _, zone := range zones {
				db := inZone(t, zone)
				exec(t, db, "select prescient.drop_history_months('2031-01-01')") // the months of the present
				for _, month := range []string{"2031-01-01", "2031-02-10", "2031-03-10"} {
					exec(t, db, "select prescient.make_history_month($1::timestamp at time zone 'UTC')", month)
				}
				end(t, db, "2030-12-31 23:59:59.999999Z", "2031-01-01 00:00:00Z", "2031-01-31 23:59:59.999999Z", "2031-02-28 23:59:59.999999Z",
					"2031-03-01 00:00:00Z", "2031-04-01 00:00:00Z")
				exec(t, db, "analyze prescient.future_job_history")

				const prune = "select partition || ' ' || rows from prescient.drop_history_months($1, $2)"
				if diff := cmp.Diff(test.want, list(t, db, prune, test.before, true)); diff != "" {
					t.Errorf("%s: a dry run tells\n%s", zone, diff)
				}
				if n := len(places(t, db)); n != 6 {
					t.Fatalf("%s: a dry run left %d rows", zone, n)
				}
				if diff := cmp.Diff(test.want, list(t, db, prune, test.before, false)); diff != "" {
					t.Errorf("%s: dropped\n%s", zone, diff)
				}
				if n := len(places(t, db)); n != test.left {
					t.Errorf("%s: %d rows are left, want %d", zone, n, test.left)
				}
			}
		})
	}
}

// A transaction that ends a check writes into history. It would wait behind one that waits for
// readers of history.
func TestNothingWaitsForReadersOfHistory(t *testing.T) {
	pgtest.NotOnCitus(t, "who reads one month, or writes into it, may keep another from being made")
	t.Parallel()
	db := inZone(t, "UTC")
	exec(t, db, "select prescient.make_history_month('2031-01-15')")
	const makeMonth, drop = "select prescient.make_history_month('2031-02-15')", "select prescient.drop_history_months('2031-02-01')"
	for name, test := range map[string]struct {
		read    string
		refused []string
		done    []string
	}{
		"all of it":           {"select from prescient.future_job_history", []string{makeMonth, drop}, nil},
		"a dump":              {"lock table prescient.future_job_history in access share mode", []string{makeMonth, drop}, nil},
		"a month":             {"select from prescient.future_job_history_203101", []string{drop}, []string{makeMonth}},
		"what has no month":   {"select from prescient.future_job_history_rest", []string{makeMonth, drop}, nil},
		"a writer":            {"select prescient.cancel('remind', 'order', '1')", []string{drop}, []string{makeMonth}},
		"one who dry-runs it": {"select prescient.drop_history_months('2031-02-01', true)", []string{makeMonth, drop}, nil},
	} {
		exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
		reader := begin(t, db)
		exec(t, reader, test.read)
		for _, query := range test.refused {
			tx := begin(t, db)
			if _, err := tx.ExecContext(t.Context(), query); !pg.IsLockTimeout(err) {
				t.Errorf("%s: %s: %v", name, query, err)
			}
			_ = tx.Rollback()
		}
		for _, query := range test.done {
			tx := begin(t, db)
			exec(t, tx, query)
			_ = tx.Rollback()
		}
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

// A condition looks into history by the entity, in the months that it reaches back to.
func TestAConditionReadsTheIndexOfItsMonths(t *testing.T) {
	pgtest.NotOnCitus(t, "what is read is a worker's")
	t.Parallel()
	db := pgtest.New(t)
	db.SetMaxOpenConns(1) // the plans that functions keep belong to a connection
	exec(t, db, `
		select prescient.make_history_month(clock_timestamp() - n * interval '1 month') from generate_series(0, 6) as n;
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'remind', 'order', n % 2000, '', now(), now(), 1, 0, '0', now(), 'me', 'done', clock_timestamp() - n % 7 * interval '30 days'
		from generate_series(1, 20000) as n;
		analyze`)
	// Empty tables are left out: to scan one costs nothing.
	const scans = `
		select c.relname || ' ' || pg_stat_get_xact_numscans(c.oid)
		from pg_partition_tree('prescient.future_job_history') as p
		join pg_class t on t.oid = p.relid
		left join pg_index i on i.indrelid = t.oid
		join pg_class c on c.oid in (t.oid, i.indexrelid)
		where p.isleaf and pg_relation_size(t.oid) > 0
		group by c.relname, c.oid`
	const current = "select to_char(clock_timestamp() at time zone 'UTC', 'YYYYMM')"
	for n := range 7 {
		month := get[string](t, db, current)
		tx := begin(t, db)
		before := list(t, tx, scans)
		exec(t, tx, `select prescient.enqueue('remind', 'order', $1, check_at => clock_timestamp(), unless_ended_within => '1 second')`, fmt.Sprint(2000+n))
		after := slices.DeleteFunc(list(t, tx, scans), func(s string) bool { return slices.Contains(before, s) })
		_ = tx.Rollback()
		if get[string](t, db, current) != month {
			continue // the month has ended meanwhile
		}
		if len(after) != 1 || !strings.HasPrefix(after[0], "future_job_history_"+month+"_entity_name_entity_key_item_key_f_idx ") {
			t.Fatalf("call %d reads %q", n, after)
		}
	}
}

// Most rows of history have ended well.
func TestHowTheJobsDoIsReadFromTheRowsThatFailed(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans of a worker are its own")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `
		select prescient.make_history_month('2030-03-01');
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'remind', 'order', n, '', now(), now(), 1, (n % 500 = 0)::int, '0', now(), 'me',
			case when n % 3 = 0 then 'cancelled' when n % 1000 = 1 then 'failed' else 'done' end,
			'2030-03-01 12:00Z'::timestamptz + n * interval '1 second'
		from generate_series(1, 20000) as n;
		analyze prescient.future_job_history`)
	plan := strings.Join(list(t, db, "explain "+pg.LedgerJobs.In(pgsql.DefaultSchema), noon, afterAll, afterAll), "\n")
	index := regexp.MustCompile(`Scan (Backward )?using future_job_history_203003_finished_at_idx1 on `)
	if !index.MatchString(plan) ||
		strings.Contains(plan, "Scan on future_job_history_203003") {
		t.Errorf("it reads other rows:\n%s", plan)
	}
}

// Some hosts have such an event trigger.
func TestAMonthHasNoRowSecurityWhereNewTablesGetOne(t *testing.T) {
	pgtest.NotOnCitus(t, "a row is in the partition of a worker, which has another name")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `
		create function public.secure() returns event_trigger language plpgsql as $$
		declare
			made record;
		begin
			for made in select * from pg_event_trigger_ddl_commands() where object_type = 'table' loop
				execute format('alter table %s enable row level security, force row level security', made.object_identity);
			end loop;
		end
		$$;
		create event trigger secure on ddl_command_end when tag in ('CREATE TABLE') execute function public.secure();
		create role month_owner;
		alter table prescient.future_job_history owner to month_owner;
		alter table prescient.future_job_history_rest owner to month_owner;
		alter function prescient.make_history_month owner to month_owner;
		grant usage, create on schema prescient to month_owner`)
	pgtest.DropRoles(t, db, "month_owner")
	if got := get[string](t, db, "select prescient.make_history_month('2031-03-01')"); got != "future_job_history_203103" {
		t.Error(got)
	}
	if get[bool](t, db, "select relrowsecurity or relforcerowsecurity from pg_class where relname = 'future_job_history_203103'") {
		t.Error("row security is on")
	}
}

// A tenant may have a million ended checks, of many items or of one.
func TestWhetherAKeyEndedLatelyTakesALookAtItsLastRow(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	db.SetMaxOpenConns(1) // the plans that functions keep belong to a connection
	exec(t, db, `
		insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, item_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'sync', 'tenant', '1', case when n % 2 = 0 then 'hot' else n::text end, now(), now(), 1, 0, '0', now(), 'me', 'done',
			now() - n * interval '1 ms'
		from generate_series(1, 20000) as n`)
	exec(t, db, "analyze prescient.future_job_history")
	const read = `select coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)::bigint from pg_class c
		where c.relname like 'future_job_history%' and c.relkind in ('r', 'i') and c.relnamespace = 'prescient'::regnamespace`
	for item, want := range map[string]string{"hot": "recent", "333": "recent", "new": "inserted"} {
		for range 7 { // more than five times, so that the function uses its generic plan, too
			tx := begin(t, db)
			before := get[int64](t, tx, read)
			got := get[string](t, tx, "select action from prescient.enqueue('sync', 'tenant', '1', item_key => $1, check_at => '2099-01-01', unless_ended_within => '1 day')", item)
			if n := get[int64](t, tx, read) - before; got != want || n > 10 {
				t.Errorf("item %s: %s, want %s; it read %d rows of history", item, got, want, n)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
