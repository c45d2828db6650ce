package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/spoken"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// noon is when the rows of these tests are due, on a day in the far future.
const noon = "2030-03-01 12:00:00Z"

func TestAChangeOfTheWidthMovesRowsUpwardOnlyAndOntoTheNewGrid(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		db := inZone(t, zone)
		exec(t, db, `select prescient.enqueue('remind', 'order', n::text, item_key => null, check_at => timestamptz '`+noon+`' + n * interval '15 minutes') from generate_series(0, 399) as n`)
		exec(t, db, "select prescient.set_width('30 minutes')")
		for _, width := range []string{"15 minutes", "1 second", "1 minute", "10 minutes", "45 minutes", "8 hours", "5 seconds", "24 hours"} {
			exec(t, db, "create temporary table before as select id, next_check_at, first_check_at from prescient.future_job")
			want := get[int](t, db, "select count(*) from before where prescient.slot_ceil(next_check_at, $1) <> next_check_at", width)
			if moved := get[int](t, db, "select prescient.set_width($1)", width); moved != want {
				t.Errorf("%s: %d rows moved to a width of %s, want %d", zone, moved, width, want)
			}
			for what, query := range map[string]string{
				"rows lost": "select count(*) from before left join prescient.future_job f using (id) where f.id is null",
				"rows not in the first slot at or after the old one": `select count(*) from before b join prescient.future_job f using (id)
					where f.next_check_at <> prescient.slot_ceil(b.next_check_at) or f.next_check_at < b.next_check_at or f.next_check_at - b.next_check_at >= $1::interval`,
				"rows off the grid":    `select count(*) from prescient.future_job where extract(epoch from next_check_at)::bigint % extract(epoch from $1::interval)::bigint <> 0`,
				"first checks changed": "select count(*) from before b join prescient.future_job f using (id) where f.first_check_at <> b.first_check_at",
				"settings whose ledger does not begin at the next slot": "select count(*) from prescient.setting where since <= clock_timestamp() - interval '1 minute' or since > clock_timestamp() + width or since <> prescient.slot_ceil(since)",
				"settings of other width":                               "select count(*) from prescient.setting where width <> $1::interval",
			} {
				args := []any{width}
				if !strings.Contains(query, "$1") {
					args = nil
				}
				if n := get[int](t, db, query, args...); n != 0 {
					t.Errorf("%s, width %s: %d %s", zone, width, n, what)
				}
			}
			exec(t, db, "drop table before")
		}
	}
}

func TestTheCheckOfTheGridFollowsTheWidth(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	insert := func(at string) []any { return []any{"remind", "order", at, "", nil, at, at} }
	exec(t, db, "select prescient.set_width('5 minutes')")
	exec(t, db, plainInsert, insert("2030-03-01 12:05:00Z")...)
	refused(t, db, pqerror.CheckViolation, plainInsert, insert("2030-03-01 12:06:00Z")...)
	exec(t, db, "select prescient.set_width('1 hour')")
	e := refused(t, db, pqerror.CheckViolation, plainInsert, insert("2030-03-01 12:05:00Z")...)
	if e.Constraint != "future_job_on_grid" && !pgtest.OnCitus() { // Citus hides the name of the constraint
		t.Errorf("refused by %s", e.Constraint)
	}
	if got := get[string](t, db, "select "+utc("slot")+" from prescient.enqueue('remind', 'order', '2', check_at => '2030-03-01 12:05:00Z')"); got != "2030-03-01 13:00:00" {
		t.Errorf("enqueued into %s", got)
	}
	exec(t, db, "select prescient.enqueue_many('{remind}', '{order}', '{3}', item_keys => '{null}', check_ats => '{2030-03-01 12:05:00Z}')")
	exec(t, db, "select prescient.reschedule('remind', 'order', '2', check_at => '2030-03-01 14:05:00Z')")
	want := []string{"2030-03-01 13:00:00", "2030-03-01 13:00:00", "2030-03-01 15:00:00"}
	if diff := cmp.Diff(want, list(t, db, "select "+utc("next_check_at")+" from prescient.future_job order by 1")); diff != "" {
		t.Error(diff)
	}
}

func TestABadWidthIsRefusedByTheConstraintAndChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:05:00Z')")
	want := dump(t, db, "prescient")
	for _, width := range []string{"0", "-15 minutes", "500 milliseconds", "1.5 seconds", "7 minutes", "25 hours", "2 days", "1 month", "1 year"} {
		e := refused(t, db, pqerror.CheckViolation, "select prescient.set_width($1)", width)
		if e.Constraint != "setting_width" || !strings.Contains(e.Message, "divides 24 hours") {
			t.Errorf("width %s: constraint %q, message %q", width, e.Constraint, e.Message)
		}
	}
	for _, width := range []string{"0", "-15 minutes", "7 minutes", "1 day", "1 month -29 days -12 hours", "1 year -365 days"} {
		refused(t, db, pqerror.CheckViolation, "update prescient.setting set width = $1", width)
	}
	e := refused(t, db, pqerror.CheckViolation, "select prescient.set_width(null)")
	if !strings.Contains(e.Message, "null") {
		t.Errorf("no width: %q", e.Message)
	}
	if diff := cmp.Diff(want, dump(t, db, "prescient")); diff != "" {
		t.Error(diff)
	}
}

// A calendar day of the session may have 23 hours; a width of one day always has 24.
func TestAWidthOfOneDayHas24HoursOnEveryDay(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		db := inZone(t, zone)
		exec(t, db, "select prescient.set_width('1 day')")
		for asked, want := range map[string]string{
			"2030-03-10 00:00:00Z":    "2030-03-10 00:00:00",
			"2030-03-10 00:00:00.1Z":  "2030-03-11 00:00:00", // summer time begins in New York
			"2030-03-09 23:30:00Z":    "2030-03-10 00:00:00",
			"2030-11-03 00:00:01Z":    "2030-11-04 00:00:00", // and ends
			"2030-11-02 23:30:00Z":    "2030-11-03 00:00:00",
			"2030-11-03 00:00:00Z":    "2030-11-03 00:00:00",
			"2030-04-06 00:00:00.01Z": "2030-04-07 00:00:00", // summer time ends in Auckland
			"2030-09-28 00:00:00.01Z": "2030-09-29 00:00:00", // and begins
			"2030-09-27 23:59:59Z":    "2030-09-28 00:00:00",
		} {
			if got := get[string](t, db, "select "+utc("prescient.slot_ceil($1)"), asked); got != want {
				t.Errorf("%s: slot of %s is %s, want %s", zone, asked, got, want)
			}
			exec(t, db, "select prescient.enqueue('remind', 'order', $1, check_at => $1::text::timestamptz)", asked)
			for _, clock := range []string{asked} {
				got := get[string](t, db, "select "+utc("prescient.due_slot('2029-01-01', $1)"), clock)
				if got <= strings.TrimSuffix(clock, "Z") || get[bool](t, db, "select prescient.due_slot('2029-01-01', $1) - $1::timestamptz > interval '24 hours'", clock) {
					t.Errorf("%s: the slot after %s is %s", zone, clock, got)
				}
			}
		}
		exec(t, db, "select prescient.set_width('15 minutes')")
	}
}

func TestTheWidthStaysWhileASlotIsOpen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "insert into prescient.slot_run (slot, state, kind, planned) values ('"+noon+"', 'open', 'run', 1)")
	e := refused(t, db, pqerror.ObjectInUse, "select prescient.set_width('1 hour')")
	if e.Message != "slot 2030-03-01T12:00:00Z is open" || !strings.Contains(e.Hint, "catch-up") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
	exec(t, db, "update prescient.slot_run set state = 'done', finished_at = statement_timestamp()")
	exec(t, db, "select prescient.set_width('1 hour')")
}

// The ledger starts again with the new width, so a missed slot would be missed silently.
func TestTheWidthStaysWhileRowsOfThePastWait(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:00:00Z')")
	for _, clock := range []string{"2030-03-01 12:00:00Z", "2030-03-01 12:07:00Z", "2030-03-01 13:00:00Z"} {
		e := refused(t, db, pqerror.ObjectInUse, "select prescient.set_width('1 hour', $1)", clock)
		if !strings.HasSuffix(e.Message, "due in slot 2030-03-01T12:00:00Z") || !strings.Contains(e.Hint, "catch-up, of a binary that has it") {
			t.Errorf("%q, hint %q", e.Message, e.Hint)
		}
	}
	exec(t, db, "update prescient.job set registered_at = statement_timestamp()")
	if e := refused(t, db, pqerror.ObjectInUse, "select prescient.set_width('1 hour', '2030-03-01 12:07:00Z')"); e.Hint != "Run them first, with: prescient run --catch-up" {
		t.Errorf("hint %q", e.Hint)
	}
	exec(t, db, "select prescient.set_width('1 hour', '2030-03-01 11:59:59.999999Z')")
}

// Catch-up leaves the rows of a paused job, so the advice to run them would not help.
func TestAChangeOfTheWidthSaysToResumeAPausedJobFirst(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.enqueue('order.remind', 'order', '1', check_at => '2030-03-01 12:00:00Z')")
	exec(t, db, "select prescient.enqueue('alert', 'order', '1', check_at => '2030-03-01 12:15:00Z')")
	exec(t, db, "update prescient.job set paused_at = statement_timestamp(), paused_by = 'me' where name = 'order.remind'")
	change := "select prescient.set_width('1 hour', '2030-03-01 12:20:00Z')"
	e := refused(t, db, pqerror.ObjectInUse, change)
	if !strings.Contains(e.Message, "order.remind") || !strings.Contains(e.Hint, "paused") || !strings.Contains(e.Hint, "prescient jobs resume order.remind") ||
		!strings.Contains(e.Hint, "prescient run --catch-up") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
	exec(t, db, "delete from prescient.future_job where entity_name = 'order' and next_check_at = '2030-03-01 12:00:00Z'")
	if e := refused(t, db, pqerror.ObjectInUse, change); !strings.Contains(e.Message, "alert") || strings.Contains(e.Hint, "resume") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
}

// Users copy the commands of the hints into a shell, and a job's name may be anything.
func TestAChangeOfTheWidthQuotesTheNameOfAJobForAShell(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	change := "select prescient.set_width('1 hour', '2030-03-01 12:20:00Z')"
	for _, name := range []string{"order.remind", "x;id", "it's $HOME", `back\slash`} {
		exec(t, db, "select prescient.enqueue($1, 'order', '1', check_at => '2030-03-01 12:00:00Z')", name)
		if e := refused(t, db, pqerror.ObjectInUse, change); !strings.HasSuffix(e.Hint, ": prescient jobs list --job "+spoken.Word(name)) {
			t.Errorf("hint %q", e.Hint)
		}
		exec(t, db, "update prescient.job set paused_at = statement_timestamp(), paused_by = 'me'")
		if e := refused(t, db, pqerror.ObjectInUse, change); !strings.Contains(e.Hint, ": prescient jobs resume "+spoken.Word(name)+", and") {
			t.Errorf("hint %q", e.Hint)
		}
		exec(t, db, "delete from prescient.future_job")
	}
}

// With the setting off, a backslash in a literal begins an escape.
func TestTheWidthIsChangedIfStringsDoNotConformToTheStandard(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.URL(t), pgsql.Param("standard_conforming_strings", "off"))
	exec(t, db, "select prescient.set_width('1 hour')")
}

// Both transactions know the old width when they begin. Neither may fail for it: applications
// enqueue in the middle of their own transactions.
func TestWritersWaitForAChangeOfTheWidthAndUseTheNewGrid(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]string{
		"enqueue":               "select prescient.enqueue('remind', 'order', '2', check_at => '2030-03-01 12:05:00Z')",
		"enqueue_many":          "select prescient.enqueue_many('{remind}', '{order}', '{2}', item_keys => '{null}', check_ats => '{2030-03-01 12:05:00Z}')",
		"enqueue_many, replace": "select prescient.enqueue_many('{remind}', '{order}', '{2}', item_keys => '{}', check_ats => '{2030-03-01 12:05:00Z}', on_conflict => 'replace')",
		"reschedule":            "select prescient.reschedule('remind', 'order', '1', check_at => '2030-03-01 12:05:00Z')",
		"push_back":             "select prescient.push_back('remind', 'order', '1', check_at => '2030-03-01 12:05:00Z')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:00:00Z')")
			tx := begin(t, db)
			exec(t, tx, "select prescient.set_width('1 hour')")
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := db.ExecContext(t.Context(), strings.Replace(write, "'{}'", "'{\"\"}'", 1)); err != nil {
					t.Error(err, pq.As(err).Detail)
				}
			})
			pgtest.AwaitWaits(t, db, 1)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if got := get[string](t, db, "select "+utc("max(next_check_at)")+" from prescient.future_job"); got != "2030-03-01 13:00:00" {
				t.Errorf("the last row waits for %s", got)
			}
		})
	}
}

// Writers of checks wait behind a waiting change. So one application with an open transaction must
// not stop all others.
func TestAChangeOfTheWidthDoesNotWaitForATransactionThatStaysOpen(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	holder := begin(t, db)
	exec(t, holder, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01 12:00:00Z')")
	pid := get[int](t, holder, "select pg_backend_pid()")
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var change error
	var wg sync.WaitGroup
	wg.Go(func() { _, change = db.ExecContext(ctx, "select prescient.set_width('1 hour')") })
	pgtest.AwaitWaits(t, db, 1)
	if _, err := db.ExecContext(ctx, "select prescient.enqueue('remind', 'order', '2', check_at => '2030-03-01 12:00:00Z')"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	wg.Wait()
	if e := pq.As(change); e == nil || e.Code != pqerror.LockNotAvailable || !strings.Contains(e.Message, fmt.Sprintf("session %d of", pid)) ||
		!strings.HasSuffix(e.Hint, fmt.Sprintf("select pg_terminate_backend(%d)", pid)) {
		t.Fatalf("%v, %+v", change, e)
	}
	if pgtest.OnCitus() {
		return // it prepares no transaction of several servers
	}
	exec(t, begin(t, pgtest.New(t)), "select from prescient.future_job") // its table may have the same number
	exec(t, holder, "prepare transaction 'left behind'")                 // which belongs to no session
	if e := refused(t, db, pqerror.LockNotAvailable, "select prescient.set_width('1 hour')"); strings.ContainsAny(e.Message, ":<") || !strings.HasSuffix(e.Hint, "prescient doctor") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
	exec(t, db, "rollback prepared 'left behind'")
	exec(t, db, "select prescient.set_width('1 hour')")
	if most := get[string](t, db, "show lock_timeout"); most != "0" {
		t.Errorf("lock_timeout is %s afterwards", most)
	}
}
