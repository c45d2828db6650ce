package rulestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestAnInsertedRowWaitsForItsFirstStep(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("04 11:50") + "), (3, " + at("05 01:00") + ")")
	s.exec(`insert into shop.orders (id, channel, placed_at, shipped_at) values
		(4, 'test', ` + at("04 11:50") + `, null), (5, 'web', null, null), (6, 'web', ` + at("04 11:50") + `, ` + at("04 11:51") + `),
		(7, 'web', 'infinity', null), (8, 'web', '-infinity', null), (9, 'web', '9999-12-31', null)`)
	s.wants("after the inserts", "1 at 03-06 12:00, 2 at 03-06 12:00, 3 at 03-07 01:00")
}

// The check does not move later: it finds out.
func TestAnInsertOfAKeyThatStillWaitsReplacesTheCheck(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:00") + "), (2, " + at("04 11:00") + "), (3, " + at("04 11:00") + ")")
	s.exec("truncate shop.orders")
	s.wants("after the truncate", "1 at 03-06 11:00, 2 at 03-06 11:00, 3 at 03-06 11:00")
	s.exec("update prescient.future_job set payload = '{\"from\": \"2030-03-06T12:00:00Z\"}', error_count = 2")
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:30") + ")")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("04 10:45") + "), (4, " + at("04 11:45") + ")")
	s.wants("after the inserts", "1 at 03-06 11:00, 2 at 03-06 10:45, 3 at 03-06 11:00 from 03-06 12:00, 4 at 03-06 11:45")
	if n := s.count("select count(*) from prescient.future_job where error_count > 0"); n != 1 {
		t.Errorf("%d checks have errors, want that of row 3", n)
	}
}

// The server copies an expression to each use of its name, unless something stops it. This rule took 1.3 s and 1 GB to
// plan, in each session that wrote to its table.
func TestThePlanOfATriggerHasEachInstantOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add local_at timestamp, add due date, add wait interval")
	s.apply(`rules: [{name: late, table: shop.orders, key: id, since: [local_at, due], done: shipped_at,
		timezone: Europe/Berlin, steps: [{after: {interval: wait}, event: a}, {after: {interval: 2 * wait}, event: b}]}]`)
	var lines []string
	if err := s.db.Select(&lines, `explain (verbose, costs off)
		select r.*
		from shop.orders o, prescient_rules.prescient_late_row(row(o.id, o.shipped_at, o.local_at, o.due, o.wait)::prescient_rules.prescient_late_type, now()) as r
		where r.about and not r.done and r.first is not null`); err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	for column, want := range map[string]int{"local_at": 2, "due": 2, "wait": 4} { // the scan has each column, too
		if n := strings.Count(plan, column); n > 3*want {
			t.Errorf("the plan names %s %d times:\n%.5000s", column, n, plan)
		}
	}
	if n := s.count(`select count(*) from pg_proc p join pg_language l on l.oid = p.prolang
		where p.pronamespace = 'prescient_rules'::regnamespace and p.prosecdef and not 'jit=off' = any (p.proconfig)`); n > 0 {
		t.Errorf("the server may compile what %d triggers do", n)
	}
}

func TestAnUpdateOfOtherColumnsChangesNothing(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
	id := s.count("select id from prescient.future_job")
	s.exec("update shop.orders set note = 'x', amount = 7, placed_at = placed_at")
	if got := s.count("select id from prescient.future_job where journal is null"); got != id {
		t.Errorf("row %d, want row %d", got, id)
	}
}

func TestAChangedSinceReTimesTheRow(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + "), (2, " + at("04 11:50") + "), (3, null)")
	s.exec("update shop.orders set placed_at = " + at("01 12:00") + " where id = 1")
	s.exec("update shop.orders set placed_at = null where id = 2")
	s.exec("update shop.orders set placed_at = " + at("04 12:00") + " where id = 3")
	s.wants("a passed step is due in the next slot", "1 at 03-04 12:15 came 03-04 12:00, 3 at 03-06 12:00")
	for _, never := range []string{"infinity", "-infinity", "9999-12-31"} {
		s.exec("update shop.orders set placed_at = '" + never + "' where id = 3")
		s.wants("an instant that never comes", "1 at 03-04 12:15 came 03-04 12:00")
		s.exec("update shop.orders set placed_at = " + at("04 12:00") + " where id = 3")
		s.wants("after "+never, "1 at 03-04 12:15 came 03-04 12:00, 3 at 03-06 12:00")
	}
}

// Of several instants, the latest counts. One that stands for never is the latest, whatever its type.
func TestAnInstantThatNeverComesHoldsTheRowBesideOthers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"date", "timestamp", "timestamptz"} {
		for _, zone := range []string{"UTC", "Europe/Berlin"} {
			for _, other := range []string{"placed_at", "changed(channel)"} {
				t.Run(kind+" "+zone+" "+other, func(t *testing.T) {
					t.Parallel()
					if other != "placed_at" {
						pgtest.NotOnCitus(t, "some queries with changed join a local table with a distributed one")
					}
					s := newShopAt(t, noon)
					s.exec("alter table shop.orders add hold " + kind)
					write := func(from, to int) {
						t.Helper()
						s.exec(`insert into shop.orders (id, placed_at, hold)
							select id, timestamptz '2030-03-04 12:00+00', hold::`+kind+`
							from (values (1, null), (2, 'infinity'), (3, '9999-12-31'), (4, '2030-03-05 12:00+00'), (5, '-infinity')) as v (id, hold)
							where id between $1 and $2`, from, to)
					}
					write(1, 3)
					s.apply(strings.Replace(with(unshipped, "timezone: "+zone), "since: placed_at", "since: [hold, "+other+"]", 1))
					write(4, 5)
					if n := s.count("select count(*) from prescient.future_job where entity_key in ('1', '4', '5')"); n != 3 {
						t.Errorf("%d rows without a hold wait, want 3", n)
					}
					if n := s.count("select count(*) from prescient.future_job where entity_key in ('2', '3')"); n != 0 {
						t.Errorf("%d held rows wait after the apply", n)
					}
					s.exec("delete from shop.orders")
					write(1, 5)
					if got := s.waiting(); regexp.MustCompile(`\b[23] at`).MatchString(got) || strings.Count(got, " at ") != 3 {
						t.Errorf("inserted: waiting %q, want rows 1, 4 and 5", got)
					}
				})
			}
		}
	}
}

func TestASinceThatMovesLaterBeforeAStepIsDueLeavesTheCheck(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
	s.exec("update shop.orders set placed_at = " + at("05 12:00"))
	s.wants("later", "1 at 03-06 12:00")
	if n := s.count("select count(*) from prescient.future_job where journal is null"); n != 1 {
		t.Error("the check was written")
	}
	s.exec("update shop.orders set placed_at = " + at("05 11:00"))
	s.wants("earlier", "1 at 03-07 11:00")
	s.exec("update shop.orders set placed_at = " + at("05 13:00") + ", channel = 'app'")
	s.wants("later with another column of the rule", "1 at 03-07 13:00")
	s.exec("update shop.orders set placed_at = " + at("05 14:00") + ", note = 'x'")
	s.wants("later with a column that is not of the rule", "1 at 03-07 13:00")
	s.exec("update shop.orders set placed_at = " + at("02 12:01"))
	s.wants("to be due in the next slot", "1 at 03-04 12:15")
	s.now = noon.Add(2 * time.Minute)
	s.exec("update shop.orders set placed_at = " + at("04 12:02"))
	s.wants("later, and the first step has passed", "1 at 03-06 12:15")
	s.exec("update shop.orders set placed_at = " + at("05 12:00"))
	s.exec("update shop.orders set placed_at = 'infinity'")
	s.wants("never", "")
}

// A rule whose since is a column has a small function before its trigger, which judges by the clock of the database.
func TestAnUpdateOfSinceMovesTheCheckHoweverSinceIsWritten(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	other := strings.NewReplacer("order.", "again.", "key: id", "key: id\n    entity: again", "since: placed_at", "since: coalesce(placed_at)")
	s.apply(unshipped + strings.TrimPrefix(other.Replace(unshipped), "\nrules:\n"))
	s.exec("insert into shop.orders (id, placed_at) select n, now() + n % 5 * interval '1 day' from generate_series(1, 300) as n")
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test repeats
	for range 10 {
		s.exec(`update shop.orders set
			placed_at = case (id + $1::int) % 7
				when 0 then null when 1 then 'infinity' when 2 then '-infinity'
				else coalesce(case when isfinite(placed_at) then placed_at end, now()) + (id * $1::int % 9 - 4) * interval '12 hours'
			end,
			channel = case when (id * $1::int) % 5 = 0 then 'test' else 'web' end,
			shipped_at = case when (id * $1::int) % 11 = 0 then now() end
			where (id + $1::int) % 3 > 0`, random.IntN(1000))
		s.exec("update shop.orders set placed_at = placed_at + (id % 5 - 1) * interval '12 hours' where (id + $1::int) % 2 > 0", random.IntN(1000))
	}
	const differ = `select count(*) from
		(select entity_key, next_check_at, requested_for from prescient.future_job where entity_name = 'orders') a full join
		(select entity_key, next_check_at, requested_for from prescient.future_job where entity_name = 'again') b using (entity_key)
		where a is distinct from b`
	if n := s.count(differ); n > 0 {
		t.Errorf("%d checks differ", n)
	}
	if n := s.count(checks + "select count(*) from f join shop.orders o on o.id::text = f.entity_key where f.next_check_at < o.placed_at + interval '47 hours'"); n < 30 {
		t.Errorf("only %d checks wait since before", n)
	}
}

// Its check may have ended before a step was due.
func TestALaterSinceMovesTheCheckOfARuleThatLooksUp(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("create table shop.payments (order_id bigint)")
	s.apply(strings.Replace(unshipped, "done: shipped_at", "done: exists (select from shop.payments p where p.order_id = orders.id)", 1))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.exec("update shop.orders set placed_at = " + at("05 12:00"))
	s.wants("later", "1 at 03-07 12:00")
}

func TestADeletedRowWaitsNoLonger(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 11:50") + " from generate_series(1, 9) as n")
	s.exec("delete from shop.orders where id > 1")
	s.wants("after the delete", "1 at 03-06 12:00")
}

// Salesforce's published example: open, closed on day 3, open again on day 5. The step of day 4 does
// not fire, that of day 7 does.
func TestARowThatIsOpenedAgainWaitsForTheStepsToCome(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(`
rules:
  - {name: case.open, table: shop.orders, key: id, since: placed_at, done: shipped_at, steps: [{after: 4d, event: a}, {after: 7d, event: b}]}
`)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + "), (3, " + at("04 12:00") + ")")
	s.now = noon.AddDate(0, 0, 3)
	s.exec("update shop.orders set shipped_at = " + at("07 12:00"))
	s.wants("closed: the check finds out", "1 at 03-08 12:00, 2 at 03-08 12:00, 3 at 03-08 12:00")
	s.now = noon.AddDate(0, 0, 3).Add(1)
	s.exec("update shop.orders set shipped_at = null where id = 2")
	s.wants("open again before the step", "1 at 03-08 12:00, 2 at 03-08 12:00 from 03-07 12:00, 3 at 03-08 12:00")
	s.exec("delete from prescient.future_job") // the checks have found it closed
	s.now = noon.AddDate(0, 0, 5)
	s.exec("update shop.orders set shipped_at = null where id = 1")
	s.wants("open again on day 5", "1 at 03-11 12:00 from 03-09 12:00")
	s.now = noon.AddDate(0, 0, 8)
	s.exec("update shop.orders set shipped_at = null where id = 3")
	s.wants("open again when no step is left", "1 at 03-11 12:00 from 03-09 12:00")
}

// A step whose slot is still to come has not passed, although its instant has.
func TestAStepIsNotLostIfItsRowIsClosedAndOpenedAgainBeforeItsSlot(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:01") + ")")
	s.wants("placed", "1 at 03-04 12:15")
	s.now = noon.Add(2 * time.Minute) // the instant was a minute ago
	s.exec("update shop.orders set shipped_at = " + at("04 12:02"))
	s.exec("update shop.orders set shipped_at = null")
	s.wants("closed and open again", "1 at 03-04 12:15 from 03-04 12:00")
}

// Its check decides about the step that has passed.
func TestARowThatComesUnderTheConditionLateIsCheckedInTheNextSlot(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'test', " + at("04 12:00") + "), (2, 'web', " + at("04 12:00") + "), (3, 'test', " +
		at("06 12:00") + "), (4, 'test', " + at("04 12:00") + ")")
	s.exec("update shop.orders set shipped_at = placed_at where id = 4")
	s.now = noon.AddDate(0, 0, 3)
	s.exec("update shop.orders set channel = 'app', shipped_at = null")
	s.wants("between the steps", "1 at 03-07 12:15 came 03-07 12:00, 2 at 03-06 12:00, 3 at 03-08 12:00, 4 at 03-08 12:00 from 03-07 12:00")
}

// Steps that have passed for a row that was done do not fire, however often it leaves and enters the condition later.
func TestARowKeepsWhichStepsHaveNotFiredWhenItEntersTheConditionAgain(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at, shipped_at) values (1, " + at("01 12:00") + ", " + at("01 12:00") + ")")
	s.exec("update shop.orders set shipped_at = null")
	s.wants("open again", "1 at 03-05 12:00 from 03-04 12:00")
	s.exec("update shop.orders set channel = 'test'; update shop.orders set channel = 'web'")
	s.wants("entered again", "1 at 03-04 12:15 from 03-04 12:00 came 03-04 12:00")
	s.exec("update shop.orders set placed_at = " + at("04 11:00"))
	s.wants("another start", "1 at 03-06 11:00")
}

// Its check has ended, because the row was outside of the condition. All steps have passed when a column of the row takes it
// back under the condition, so overdue decides.
func TestARowThatComesUnderAConditionThatLooksUpByItsOwnColumnIsChecked(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("create table shop.channels (name text primary key, open boolean); insert into shop.channels values ('web', true), ('app', false)")
	s.apply(strings.Replace(unshipped, "channel <> 'test'", "(select c.open from shop.channels c where c.name = orders.channel)", 1))
	s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'app', " + at("01 12:00") + "), (2, 'app', " + at("04 11:00") + ")")
	s.exec("delete from prescient.future_job")
	s.now = noon.AddDate(0, 0, 3)
	s.exec("update shop.orders set channel = 'web'")
	s.wants("it came", "1 at 03-07 12:15 came 03-07 12:00, 2 at 03-07 12:15 came 03-07 12:00")
}

func TestRowsThatAreWrittenLateTellWhenTheyCame(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon.Add(time.Minute))
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:00") + ")")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("02 12:00") + "), (3, " + at("04 12:00") + ")")
	s.exec("truncate shop.orders")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("02 12:00") + "), (3, " + at("02 12:00") + ")")
	s.wants("after the inserts", "1 at 03-04 12:15 came 03-04 12:01, 2 at 03-04 12:15 came 03-04 12:01, 3 at 03-04 12:15 came 03-04 12:01")
}

func TestAtOnceEndsTheWaitWhereItIsDone(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "cancel: at-once"))
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 12:00") + " from generate_series(1, 3) as n")
	s.exec("update shop.orders set shipped_at = " + at("04 12:00") + " where id = 1")
	s.exec("update shop.orders set channel = 'test' where id = 2")
	s.wants("after the updates", "3 at 03-06 12:00")
}

// The trigger, the apply and the check read done in one way.
func TestARowWhoseDoneIsStillToComeWaits(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	const rows = "1 at 03-06 12:00, 2 at 03-06 12:00"
	write := func() {
		t.Helper()
		s.exec(`insert into shop.orders (id, placed_at, shipped_at) values
			(1, timestamptz '2030-03-04 12:00+00', timestamptz '2030-03-04 12:00:01+00'), (2, timestamptz '2030-03-04 12:00+00', 'infinity'),
			(3, timestamptz '2030-03-04 12:00+00', timestamptz '2030-03-04 12:00+00'), (4, timestamptz '2030-03-04 12:00+00', '-infinity')`)
	}
	write()
	s.apply(with(unshipped, "cancel: at-once"))
	s.wants("applied", rows)
	s.exec("delete from shop.orders")
	s.wants("deleted", "")
	write()
	s.wants("inserted", rows)
	s.exec("update shop.orders set shipped_at = '-infinity' where id = 1; update shop.orders set shipped_at = 'infinity' where id = 3")
	s.wants("updated", "2 at 03-06 12:00, 3 at 03-06 12:00 from 03-04 12:00")
}

func TestARowDoesNotWaitForADoneThatStandsForNever(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "met: {event: met}"))
	s.exec("insert into shop.orders (id, placed_at, shipped_at) values (1, '2030-01-01', '2030-01-02')")
	s.exec("update shop.orders set shipped_at = '9999-12-31'")
	s.wants("done, and then never", "")
}

// A trigger of the application may change a column that the statement does not name.
func TestAColumnThatAnotherTriggerChangesCounts(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "cancel: at-once"))
	s.exec(`create function shop.ship() returns trigger language plpgsql as $$ begin new.shipped_at := new.placed_at; return new; end $$;
		create trigger ship before update on shop.orders for each row execute function shop.ship()`)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.exec("update shop.orders set note = 'x'")
	s.wants("after the update", "")
}

// The rule's trigger of inserts comes after it, with the values from before.
func TestATriggerThatMovesTheClockOfAnInsertedRowEarlierCounts(t *testing.T) {
	t.Parallel()
	for name, partitions := range map[string]string{
		"a table":                 "",
		"a table with partitions": " partition by range (id); create table shop.parcels_1 partition of shop.parcels default",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec("create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text default 'web')" + partitions)
			s.exec(`create function shop.earlier() returns trigger language plpgsql as $$ begin
					update shop.parcels set placed_at = placed_at - interval '1 day' where id = new.id and id < 10;
					update shop.parcels set placed_at = placed_at - interval '3 days' where id = new.id and id > 10;
					return null;
				end $$;
				create trigger earlier after insert on shop.parcels for each row execute function shop.earlier()`)
			s.apply(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"))
			s.exec("insert into shop.parcels (id, placed_at) values (1, " + at("04 12:00") + ")")
			s.exec("insert into shop.parcels (id, placed_at) values (2, " + at("04 12:00") + "), (3, " + at("04 13:00") + ")")
			s.exec("insert into shop.parcels (id, placed_at) values (11, " + at("04 12:00") + ")")
			s.wants("inserted", "1 at 03-05 12:00, 11 at 03-04 12:15 came 03-04 12:00, 2 at 03-05 12:00, 3 at 03-05 13:00")
		})
	}
}

func TestAnUpsertAndAMergeAreInsertsAndUpdates(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	for range 2 {
		s.exec(`insert into shop.orders (id, placed_at) values (1, ` + at("04 12:00") + `), (2, ` + at("04 12:00") + `)
			on conflict (id) do update set placed_at = excluded.placed_at - interval '1 hour'`)
	}
	s.exec(`merge into shop.orders o using (values (2), (3)) as v (id) on v.id = o.id
		when matched then delete when not matched then insert (id, placed_at) values (v.id, ` + at("04 12:00") + `)`)
	s.wants("after all", "1 at 03-06 11:00, 3 at 03-06 12:00")
}

// Statement triggers of the parent do not see what is written to a partition directly.
func TestRowsOfPartitionsWaitHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text default 'web') partition by range (id);
		create table shop.parcels_1 partition of shop.parcels for values from (0) to (100)`)
	s.apply(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"))
	s.exec("insert into shop.parcels (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.exec("insert into shop.parcels_1 (id, placed_at) values (3, " + at("04 12:00") + ")")
	s.exec("create table shop.parcels_2 partition of shop.parcels for values from (100) to (200)")
	s.exec("insert into shop.parcels_2 (id, placed_at) values (103, " + at("04 12:00") + ")")
	s.exec("update shop.parcels set id = id + 100 where id < 3")
	s.exec("delete from shop.parcels_1")
	s.wants("after all", "101 at 03-06 12:00, 102 at 03-06 12:00, 103 at 03-06 12:00")
}

// Triggers go on until a file with the new name is applied. A write must not fail.
func TestRowsOfATableWhoseColumnWasRenamedWaitAsBefore(t *testing.T) {
	t.Parallel()
	file := strings.Replace(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"), "where: channel <> 'test'",
		"where: channel <> 'test' and 1 / amount > 0", 1)
	for kind, partitions := range map[string]string{
		"ordinary": "",
		"partitioned": ` partition by range (id);
			create table shop.parcels_1 (amount numeric not null default 1, gone integer, channel text default 'web', shipped_at timestamptz,
				id bigint not null, placed_at timestamptz);
			alter table shop.parcels_1 drop column gone;
			alter table shop.parcels attach partition shop.parcels_1 for values from (0) to (100)`,
	} {
		for _, column := range []string{"id", "placed_at", "shipped_at", "channel", "amount"} {
			t.Run(kind+" "+column, func(t *testing.T) {
				t.Parallel()
				s := newShopAt(t, noon)
				s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz,
					channel text default 'web', amount numeric not null default 1)` + partitions)
				s.apply(file)
				s.exec("insert into shop.parcels (id, placed_at) select n, " + at("04 12:00") + " from generate_series(1, 5) as n")
				s.exec("alter table shop.parcels rename " + column + " to renamed")
				exec := func(statement string) {
					t.Helper()
					s.exec(regexp.MustCompile(`\b`+column+`\b`).ReplaceAllString(statement, "renamed"))
				}
				exec("update shop.parcels set placed_at = placed_at - interval '1 hour' where id = 1")
				exec("update shop.parcels set shipped_at = placed_at where id = 2")
				exec("update shop.parcels set id = 13 where id = 3")
				exec("delete from shop.parcels where id = 4")
				exec("insert into shop.parcels (id, placed_at) values (6, " + at("04 13:00") + ")")
				exec("insert into shop.parcels (id, placed_at, channel) values (7, " + at("04 13:00") + ", 'web'), (8, " + at("04 13:00") + ", 'test')")
				exec("insert into shop.parcels (id, placed_at, amount) values (9, " + at("04 13:00") + ", 0)")
				s.wants("after all",
					"1 at 03-06 11:00, 13 at 03-06 12:00, 2 at 03-06 12:00, 5 at 03-06 12:00, 6 at 03-06 13:00, 7 at 03-06 13:00, "+
						"9 at 03-04 12:15 came 03-04 12:00")
			})
		}
	}
}

func TestEachKindOfConditionAndKeyIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create type shop.state as enum ('NEW', 'SENT');
		create table shop."Odd Orders" ("Id" uuid primary key, "when" timestamptz(3), state shop.state, data json, "old" boolean, keys int[], clock numeric)`)
	s.apply(`
rules:
  - name: Odd "rule" 'with' a name of $prescient$ and more than sixty-three bytes, which is too much
    table: shop."Odd Orders"
    key: '"Id"'
    since: '"when"'
    done: state <> 'NEW' and "old" -- a comment
    where: (data ->> 'kind') = 'shop' and clock > 1 and 2 = any (keys) and "when" > '2020-01-01'
    steps: [{after: 1h, event: a}]
`)
	const row = `('00000000-0000-0000-0000-00000000000%s', '2030-03-04 12:00+00', 'NEW', '{"kind": "%s"}', true, '{1,2}', 2)`
	s.exec(`insert into shop."Odd Orders" values ` + fmt.Sprintf(row, "1", "shop") + "," + fmt.Sprintf(row, "2", "other"))
	s.exec(`insert into shop."Odd Orders" values ` + fmt.Sprintf(row, "3", "shop"))
	s.exec(`update shop."Odd Orders" set data = '{"kind": "shop"}', clock = 3`)
	s.wants("after all", "00000000-0000-0000-0000-000000000001 at 03-04 13:00, 00000000-0000-0000-0000-000000000002 at 03-04 13:00, "+
		"00000000-0000-0000-0000-000000000003 at 03-04 13:00")
}

// A column may compare in another way than the database.
func TestAConditionComparesAsItsColumnDoes(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create collation shop.anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		alter table shop.orders alter channel type text collate shop.anycase`)
	s.apply(strings.Replace(unshipped, "channel <> 'test'", "channel = 'web'", 1))
	s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'WEB', " + at("04 12:00") + "), " +
		"(2, 'app', " + at("04 12:00") + ")")
	s.exec("insert into shop.orders (id, channel, placed_at) values (3, 'Web', " + at("04 12:00") + ")")
	s.wants("inserted", "1 at 03-06 12:00, 3 at 03-06 12:00")
	s.exec("update shop.orders set channel = 'wEb' where id = 2")
	s.wants("updated", "1 at 03-06 12:00, 2 at 03-06 12:00, 3 at 03-06 12:00")
}

// A check waits until the year 9999 at most, and a write does not fail.
func TestAStepThatIsDueAfterAllTimesNeverFires(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec("alter table shop.orders add hold interval")
			s.apply("rules: [{name: order.held, table: shop.orders, key: id, since: placed_at, done: shipped_at, " +
				"timezone: " + zone + ", steps: [{after: {interval: hold}, event: a}]}]")
			holds := []string{"9000 years", "2147483647 mins", "99999999 hours", "-2147483647 mins", "2147483647 hours"}
			if s.count("select current_setting('server_version_num')::int") >= 170000 {
				holds = append(holds, "infinity")
			}
			for _, hold := range holds {
				s.exec("insert into shop.orders (id, placed_at, hold) values (1, "+at("04 12:00")+", $1)", hold)
				s.exec("insert into shop.orders (id, placed_at, hold) values (2, "+at("04 12:00")+", $1), "+
					"(3, "+at("04 12:00")+", '1 day')", hold)
				s.wants("inserted with "+hold, "3 at 03-05 12:00")
				s.exec("update shop.orders set hold = $1 where id = 3", hold)
				s.wants("updated to "+hold, "")
				s.exec("update shop.orders set hold = '2 days' where id = 1")
				s.wants("updated from "+hold, "1 at 03-06 12:00")
				s.exec("delete from shop.orders")
			}
		})
	}
}

// PostgreSQL does not count a failed assert as one of the others that a function handles.
func TestAnAssertOfAConditionFailsNoWrite(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create function shop.sold(amount numeric) returns boolean language plpgsql immutable as $$ begin assert amount > 0; return true; end $$`)
	s.apply(strings.Replace(unshipped, "channel <> 'test'", "shop.sold(amount)", 1))
	s.exec("insert into shop.orders (id, amount, placed_at) values (1, 1, " + at("04 12:00") + "), (2, -1, " + at("04 12:00") + ")")
	s.exec("insert into shop.orders (id, amount, placed_at) values (3, 1, " + at("04 12:00") + ")")
	s.exec("update shop.orders set amount = -2 where id = 3")
	s.wants("after all", "1 at 03-06 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-04 12:15 came 03-04 12:00")
}

// A function of a trigger has names of its own: those of its variables and of its subqueries.
func TestATableMayHaveAColumnOfAnyName(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	names := []string{
		"now", "clock", "came", "keys", "ats", "n", "key", "since", "about", "done", "first", "coming", "at", "s1", "r", "new", "old",
	}
	s.exec("create table shop.named (id bigint primary key, \"" + strings.Join(names, "\" int, \"") + "\" timestamptz)")
	s.apply(`
rules:
  - {name: named, table: shop.named, key: id, since: '"old"', done: '"at" = 1 or "s1" = 1', where: '"now" > 0', steps: [{after: 2d, event: e}]}`)
	s.exec(`insert into shop.named (id, "now", "old") values (1, 1, now()), (2, 0, now())`)
	s.exec(`insert into shop.named (id, "now", "old") values (3, 1, now())`)
	s.exec(`update shop.named set "now" = 1`)
	if got := s.count("select count(*) from prescient.future_job"); got != 3 {
		t.Errorf("%d rows wait, want 3", got)
	}
}

func TestAKeyOfADomainIsReadAsItsType(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create domain shop.number as bigint check (value > 0);
		create domain shop.order_number as shop.number;
		create table shop.parcels (id shop.order_number primary key, placed_at timestamptz, shipped_at timestamptz);
		insert into shop.parcels values (1, ` + at("04 12:00") + `)`)
	s.db.SetMaxOpenConns(1)
	s.db.MustExec("set search_path = shop")
	s.apply(strings.ReplaceAll(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"), "    where: channel <> 'test'\n", ""))
	s.exec("insert into shop.parcels values (2, " + at("04 12:00") + ")")
	s.wants("there, and inserted", "1 at 03-06 12:00, 2 at 03-06 12:00")
	if status, err := s.store.Get(t.Context(), "order.unshipped"); err != nil || status.KeyType.String() != "bigint" {
		t.Errorf("type %s, error %v", status.KeyType, err)
	}
}

// The message of the server names a domain of prescient.
func TestAKeyThatNoCheckCanHaveIsToldWithItsRule(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("create table shop.parcels (id text primary key, placed_at timestamptz, shipped_at timestamptz)")
	file := strings.ReplaceAll(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"), "channel <> 'test'", "true")
	s.apply(file)
	s.exec("insert into shop.parcels (id, placed_at) values ('', now()), ('a', " + at("04 12:00") + "), (repeat('x', 501), now())")
	s.wants("a write does not fail", "a at 03-06 12:00")
	s.exec("delete from shop.parcels where id <> ''")
	_, err := s.store.Again().Apply(t.Context(), parse(t, file), nil)
	if err == nil || !strings.Contains(err.Error(), `line 5: rule order.unshipped: key: a row has a key of 0 bytes, and may have 1 to 500. Leave such rows out with where: octet_length("id")`) {
		t.Errorf("error %v", err)
	}
	s.apply(strings.ReplaceAll(file, "where: true", "where: octet_length(id) between 1 and 500"))
	s.exec("insert into shop.parcels (id, placed_at) values (repeat('x', 501), now()), ('a\nb', " + at("04 12:00") + ")")
	s.wants("left out", "a\nb at 03-06 12:00")
	s.apply(strings.ReplaceAll(file, "where: true", "where: octet_length(id) between 1 and 500\n    recovered: {event: order.shipped}"))
	s.exec("update shop.parcels set shipped_at = now() where octet_length(id) <> 3")
	s.wants("the update of a row without a check does not fail", "a\nb at 03-06 12:00")
}

// Steps in different units need not be due in their order: 5 business days are more than 48 hours.
func TestARowWaitsForTheEarliestOfItsSteps(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(`
calendars: {desk: {}}
rules:
  - name: order.late
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    steps: [{after: 5 business days, calendar: desk, event: a}, {after: 48h, event: b}]
`)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.wants("48 hours are less", "1 at 03-06 12:00")
}

// What is the hour of an instant depends on a setting of the session.
func TestAConditionMeansTheSameInEverySession(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(`
rules:
  - {name: order.early, table: shop.orders, key: id, since: placed_at, done: shipped_at, where: extract(hour from placed_at) < 13, steps: [{after: 48h, event: a}]}
`)
	s.exec("set local timezone = 'Asia/Tokyo'; insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.wants("noon in UTC", "1 at 03-06 12:00")
}

// An application may have settings of its own, by which values become other texts.
func TestAConditionThatMakesTextMeansTheSameInEverySession(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`alter table shop.orders add wait interval default '36 hours', add code bytea default '\xff', add rate float8 default 0.1,
		add price money default 1234.5, add words text default 'the cats', add tags text default '{NULL}', add said text default '2026-11-29 20:00 EST'`)
	changes := map[string][2]string{
		"timezone = 'Asia/Tokyo'":                          {"placed_at::text", "2030-03-04 12:00:00+00"},
		"timezone_abbreviations = 'Australia'":             {"said::timestamptz::text", "2026-11-30 01:00:00+00"},
		"datestyle = 'SQL, DMY'":                           {"placed_at::text", "2030-03-04 12:00:00+00"},
		"intervalstyle = 'iso_8601'":                       {"wait::text", "36:00:00"},
		"bytea_output = 'escape'":                          {"code::text", `\xff`},
		"extra_float_digits = -15":                         {"(rate + 0.2)::text", "0.30000000000000004"},
		"lc_monetary = 'C.UTF-8'":                          {"price::text", "$1,234.50"},
		"lc_numeric = 'C.UTF-8'":                           {"to_char(amount, '9D9')", " 1.0"},
		"xmlbinary = 'hex'":                                {"xmlforest(code)::text", "<code>/w==</code>"},
		"default_text_search_config = 'english'":           {"to_tsvector(words)::text", "'cats':2 'the':1"},
		"array_nulls = off":                                {"coalesce((tags::text[])[1], 'none')", "none"},
		"search_path = shop":                               {"'shop.orders'::regclass::text", "shop.orders"},
		"quote_all_identifiers = on":                       {"quote_ident(channel)", "web"},
		"default_transaction_isolation = 'serializable'":   {"channel", "web"},
		"plpgsql.variable_conflict = 'use_column'":         {"channel", "web"},
		"timezone = 'UTC'; set local row_security = 'off'": {"channel", "web"},
	}
	for n, setting := range slices.Sorted(maps.Keys(changes)) {
		if testing.Short() && n%4 > 0 {
			continue
		}
		what, want := changes[setting][0], changes[setting][1]
		file := strings.Replace(unshipped, "channel <> 'test'", "("+what+") = '"+strings.ReplaceAll(want, "'", "''")+"'", 1)
		s.apply(file)
		s.exec("set local " + setting + "; insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, null)")
		s.wants("inserted with "+setting+", "+what, "1 at 03-06 12:00")
		s.exec("set local " + setting + "; update shop.orders set placed_at = " + at("04 12:00") + " where id = 2; delete from shop.orders where id = 1")
		s.wants("written with "+setting+", "+what, "2 at 03-06 12:00")
		s.exec("delete from shop.orders")
		s.wants("deleted", "")
		if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// To set a setting costs each write 0.7 microseconds. So a trigger sets those that what it computes may depend on.
func TestATriggerSetsWhatItsConditionsMayDependOn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`alter table shop.orders add doc jsonb, add opened date default '2030-01-01', add rate float8;
		create function shop.same(text) returns text immutable language sql as 'select $1';
		create table shop.days (opened date primary key, placed_at timestamptz, shipped_at timestamptz, channel text)`)
	for where, few := range map[string]bool{
		"channel <> 'test'": true,
		"amount * 2 > 10 and rate < 0.1 and channel in ('web', 'shop') and lower(channel) like 'w%'":     true,
		"shipped_at - interval '1 day' > placed_at or opened < placed_at or date(placed_at) = opened":    true,
		"extract(hour from placed_at) < 13 and date_trunc('day', placed_at) at time zone 'UTC' > opened": true,
		"doc ->> 'state' = 'open' and coalesce(nullif(doc ->> 'a', 'b'), 'c') <> 'd'":                    true,
		"placed_at::text <> ''":                           false,
		"rate::text <> ''":                                false,
		"(doc ->> 'until')::timestamptz > placed_at":      false,
		"to_char(placed_at, 'TMDay') <> 'x'":              false,
		"quote_ident(channel) = 'web'":                    false,
		"shop.same(channel) = 'web'":                      false,
		"to_tsvector(channel) @@ 'web'":                   false,
		"format('%s', channel) = 'web'":                   false,
		"array_to_string(array[channel, note], ',') = ''": false,
	} {
		s.apply(strings.Replace(unshipped, "channel <> 'test'", `"`+where+`"`, 1))
		var counts string
		err := s.db.GetContext(t.Context(), &counts, `select string_agg(distinct cardinality(proconfig)::text, ' ') from pg_proc p
			join pg_trigger g on g.tgfoid = p.oid where g.tgrelid = 'shop.orders'::regclass`)
		want := "17"
		if few {
			want = "3"
		}
		if err != nil || counts != want {
			t.Errorf("where: %s: the triggers have %s settings, want %s: %v", where, counts, want, err)
		}
	}
	s.apply(strings.NewReplacer("order.unshipped", "day", "shop.orders", "shop.days", "key: id", "key: opened").Replace(unshipped))
	if n := s.count(`select max(cardinality(proconfig)) from pg_proc p join pg_trigger g on g.tgfoid = p.oid where g.tgrelid = 'shop.days'::regclass`); n != 17 {
		t.Errorf("the triggers of a table whose key is a date have %d settings, want 17", n)
	}
}

// With few digits, two numbers may have one text.
func TestAChangeThatASessionDoesNotShowCounts(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add rate float8 default 0.1")
	s.apply(strings.Replace(unshipped, "channel <> 'test'", "rate > 0.1", 1))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.exec("set local extra_float_digits = -15; update shop.orders set rate = 0.1000000000001")
	s.wants("changed", "1 at 03-06 12:00")
}

func TestAnApplyReadsConditionsAsTheTriggersDo(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("01 12:00") + ")")
	s.db.SetMaxOpenConns(1)
	s.db.MustExec("set timezone = 'Asia/Tokyo'")
	_, err := s.store.Apply(t.Context(), parse(t, `
rules:
  - {name: order.early, table: shop.orders, key: id, since: placed_at, done: shipped_at, where: extract(hour from placed_at) < 13, steps: [{after: 48h, event: a}]}
`), nil)
	if _, ok := errors.AsType[*rulestore.OverdueError](err); !ok {
		t.Errorf("error %v, and the step of the row has passed", err)
	}
}

// The payload of a check comes from its enqueue, and an application may enqueue.
func TestOneCheckWithAnotherPayloadStopsNoApply(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.exec(`update prescient.future_job set payload = '{"from": "soon"}' where entity_key = '1'`)
	s.apply(strings.Replace(unshipped, "2d", "1d", 1))
	if n := s.count("select count(*) from prescient.future_job where next_check_at = " + at("05 12:00")); n != 2 {
		t.Errorf("%d checks wait for the new step", n)
	}
}

// To such a column, Abc equals ABC. To the checks they are two keys.
func TestAKeyThatChangesItsCaseIsAnotherKey(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create collation shop.anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		create table shop.carts (id text collate shop.anycase primary key, placed_at timestamptz, shipped_at timestamptz)`)
	file := strings.NewReplacer("shop.orders", "shop.carts", "    where: channel <> 'test'\n", "").Replace(unshipped)
	s.apply(file)
	s.exec("insert into shop.carts (id, placed_at) values ('Abc', " + at("04 12:00") + ")")
	s.exec("update shop.carts set id = 'ABC'")
	s.wants("changed", "ABC at 03-06 12:00")
	s.apply(strings.Replace(file, "after: 2d", "after: 1d", 1))
	s.wants("found by its key, which compares in another way than those of checks", "ABC at 03-05 12:00")
}

// A step may close or delete its own row. Its check, which is at work, ends the row as done.
func TestACheckThatIsDueIsLeftToItsRun(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "cancel: at-once"))
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 12:00") + " from generate_series(1, 5) as n")
	s.now = noon.AddDate(0, 0, 2)
	s.exec("update shop.orders set shipped_at = " + at("06 12:00") + " where id = 1")
	s.exec("update shop.orders set id = 0 where id = 2")
	s.exec("delete from shop.orders where id > 3")
	s.exec("delete from shop.orders where id = 3")
	s.wants("all are due", "0 at 03-06 12:15, 1 at 03-06 12:00, 2 at 03-06 12:00, 3 at 03-06 12:00, 4 at 03-06 12:00, 5 at 03-06 12:00")
}

// Slots are a second apart here, and the clock is the database's.
func TestARowThatWaitsForALockOverABoundaryDoesNotGoIntoThePast(t *testing.T) {
	t.Parallel()
	const insert = "insert into shop.orders (id, placed_at) select n, $1::timestamptz - interval '2 days' from generate_series(1, $2::int) as n"
	for name, c := range map[string]struct {
		rows   int
		holder string // what it locks
		ask    string // what waits for it
	}{
		"an insert of one row":   {1, insert, insert},
		"an insert of many rows": {3, insert, insert},
		"an update": {
			1, "select from prescient.future_job for update",
			"update shop.orders set placed_at = $1::timestamptz - interval '2 days' where id <= $2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec("select prescient.set_width('1 second')")
			s.apply(unshipped)
			asked := s.clock().Add(time.Second)
			held := []any{}
			if c.holder == c.ask {
				held = []any{asked.AddDate(0, 0, 1), c.rows}
			} else {
				s.exec(insert, asked.AddDate(0, 0, 1), c.rows)
			}
			holder := s.db.MustBegin()
			defer func() { _ = holder.Rollback() }()
			if _, err := holder.ExecContext(t.Context(), c.holder, held...); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := s.db.ExecContext(t.Context(), c.ask, asked, c.rows); err != nil {
					t.Error(err)
				}
			})
			pgtest.AwaitWaits(t, s.db, 1)
			released := pgtest.AwaitClock(t, s.db, asked.Add(time.Second))
			if err := holder.Rollback(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if n := s.count(`
				select count(*) from prescient.future_job
				where next_check_at > $1 and requested_for = $2 and (request).check_at is null
					and coalesce(journal, '') not like '%' || chr(10) || '%'`, released, asked); n != c.rows {
				t.Errorf("%d of %d rows wait for a slot after %s: %s", n, c.rows, released, s.waiting())
			}
		})
	}
}

// A trigger reads nothing where another transaction inserts.
func TestSerializableTransactionsInsertRowsAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	var all []*sqlx.Tx
	for n, rows := range []int{1, 1, 1, 3, 3} {
		tx, err := s.db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(t.Context(), `insert into shop.orders (id, placed_at)
			select $1 * 10 + i, now() from generate_series(1, $2::int) as i`, n, rows); err != nil {
			t.Fatal(err)
		}
		all = append(all, tx)
	}
	for n, tx := range all {
		if err := tx.Commit(); err != nil {
			t.Errorf("transaction %d: %v", n, err)
		}
	}
	if n := s.count("select count(*) from prescient.future_job"); n != 9 {
		t.Errorf("%d rows wait, want 9", n)
	}
}

// clock is the database's.
func (s *shop) clock() (at time.Time) {
	s.t.Helper()
	if err := s.db.GetContext(s.t.Context(), &at, "select clock_timestamp()"); err != nil {
		s.t.Fatal(err)
	}
	return at
}

func TestAWaitThatATriggerSuppressesIsAnErrorOfTheStatement(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "cancel: at-once"))
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 12:00") + " from generate_series(1, 4) as n")
	s.exec("create function ignore() returns trigger language plpgsql as 'begin return null; end'")
	s.exec("create trigger ignore before insert or update or delete on prescient.future_job for each row execute function ignore()")
	before := s.waiting()
	for _, statement := range []string{
		"insert into shop.orders (id, placed_at) values (5, " + at("04 12:00") + ")",
		"insert into shop.orders (id, placed_at) values (5, " + at("04 12:00") + "), (6, " + at("04 12:00") + ")",
		"update shop.orders set placed_at = " + at("03 12:00") + " where id = 1",
		"update shop.orders set shipped_at = '-infinity' where id = 2",
		"delete from shop.orders where id = 3",
		"delete from shop.orders where id > 2",
	} {
		if _, err := s.db.ExecContext(t.Context(), statement); !pg.HasState(err, pqerror.TriggeredDataChangeViolation) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	s.wants("nothing has changed", before)
}

// With the function that never fails, an insert of 10,000 rows takes 25 times as long. So a trigger calls it only if the
// other one has failed.
func TestARowIsReadByTheFastFunction(t *testing.T) {
	t.Parallel()
	for kind, partitions := range map[string]string{
		"plain": "", "partitioned": " partition by hash (id); create table shop.part partition of shop.line for values with (modulus 1, remainder 0)",
	} {
		s := newShop(t)
		s.exec("create table shop.line (id bigint primary key, channel text, placed_at timestamptz default now(), shipped_at timestamptz)" + partitions)
		s.apply(strings.Replace(unshipped, "shop.orders", "shop.line", 1))
		err := pgsql.InTx(t.Context(), s.db, func(tx *sqlx.Tx) error {
			for _, statement := range []string{
				"set local track_functions = 'all'",
				"insert into shop.line (id, channel) values (1, 'web')",
				"insert into shop.line (id, channel) values (2, 'web'), (3, 'web')",
				"update shop.line set placed_at = placed_at - interval '1 hour'",
				"update shop.line set id = 4 where id = 3",
				"delete from shop.line where id = 1",
			} {
				if _, err := tx.ExecContext(t.Context(), statement); err != nil {
					return err
				}
			}
			var called string
			err := tx.GetContext(t.Context(), &called, `select string_agg(proname || ' ' || calls, ', ' order by proname)
				from (select proname, pg_stat_get_xact_function_calls(oid) as calls from pg_proc where pronamespace = 'prescient_rules'::regnamespace) as c
				where calls > 0`)
			if !strings.Contains(called, "_insert ") || !strings.Contains(called, "_update ") || !strings.Contains(called, "_delete ") ||
				strings.Contains(called, "_safe ") {
				t.Errorf("%s: calls of functions: %s", kind, called)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A value of 100 kB lies outside of its row, in pieces. To put them together takes half a millisecond, so an update of
// another column must not.
func TestAnUpdateReadsALargeValueOnlyIfTheRuleDoes(t *testing.T) {
	pgtest.NotOnCitus(t, "the table is a worker's")
	t.Parallel()
	s := newShop(t)
	s.exec(`alter table shop.orders add doc jsonb, add other jsonb`)
	s.exec(`insert into shop.orders (id, placed_at, doc, other)
		select 1, now(), doc, doc from (select jsonb_build_object('a', string_agg(md5(n::text), '')) as doc from generate_series(1, 3200) as n) as d`)
	reads := func() int {
		t.Helper()
		const scans = `select pg_stat_get_xact_numscans(i.indexrelid)
			from pg_class c join pg_index i on i.indrelid = c.reltoastrelid where c.oid = 'shop.orders'::regclass`
		var before, after int
		err := pgsql.InTx(t.Context(), s.db, func(tx *sqlx.Tx) error {
			if err := tx.GetContext(t.Context(), &before, scans); err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), "update shop.orders set amount = amount + 1 where id = 1"); err != nil {
				return err
			}
			return tx.GetContext(t.Context(), &after, scans)
		})
		if err != nil {
			t.Fatal(err)
		}
		return after - before
	}
	for _, test := range []struct {
		where string
		want  int // the old and the new row
	}{{"channel <> 'test'", 0}, {"doc is not null", 2}} {
		s.apply(strings.Replace(unshipped, "channel <> 'test'", test.where, 1))
		if n := reads(); n != test.want {
			t.Errorf("where: %s: an update of another column has read %d large values, want %d", test.where, n, test.want)
		}
	}
}
