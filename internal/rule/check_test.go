package rule_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/internal/await"
	"github.com/prescient-go/prescient/internal/expr"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/event"
	_ "github.com/prescient-go/prescient/jobs/event/file"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/grid"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const day24 = 24 * time.Hour

func TestAStepFiresForAnOrderThatIsOpenAndTheNextStepFollows(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.run(day(4))
	s.wants(map[string]string{"1": "day 7"})
	s.run(day(7))
	s.wants(map[string]string{"1": "done: open first,final"})

	want := []event.Event{
		{Source: "shop", Type: "order.unshipped.first", Subject: "order/1", Time: day(4), PublishedAt: day(4), Data: json.RawMessage(
			`{"rule":"order.unshipped","step":"first","entity":"order","key":"1","since":"2030-03-01T12:00:00Z","when":"after 4d","at":"2030-03-05T12:00:00Z","payload":{"customer":"ada"}}`)},
		{Source: "shop", Type: "order.unshipped.final", Subject: "order/1", Time: day(7), PublishedAt: day(7), Data: json.RawMessage(
			`{"rule":"order.unshipped","step":"final","entity":"order","key":"1","since":"2030-03-01T12:00:00Z","when":"after 7d","at":"2030-03-08T12:00:00Z","payload":{"customer":"ada"}}`)},
	}
	got := s.publisher.Events()
	for i := range got {
		if len(got[i].ID) != 32 {
			t.Errorf("id %q", got[i].ID)
		}
		got[i].ID = ""
	}
	diff(t, want, got)
}

func TestARowThatNeedsNothingEndsWithWhatWasFound(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	s.order(1, 2, 3, 4)
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		s.waits(id, day(4))
	}
	s.exec(`update shop.orders set shipped_at = $1 where id = 1`, day(3))
	s.exec(`update shop.orders set channel = 'test' where id = 2`)
	s.exec(`update shop.orders set placed_at = null where id = 3`)
	s.exec(`update shop.orders set placed_at = $1 where id = 4`, day(1)) // and no trigger re-timed the check
	s.run(day(4))
	s.wants(map[string]string{
		"1": "done: done at 2030-03-04T12:00:00Z", "2": "done: outside", "3": "done: outside", "4": "day 5", "5": "done: gone",
	})
	diff(t, []string(nil), s.published())
}

// A field that decides when steps fire must not be passed over by a version that does not know it.
func TestARuleWithAFieldOfALaterVersionFiresNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"{later}", "{rule,later}", "{rule,steps,0,later}", "{facts,later}"} {
		s := newLateOrder(t)
		s.exec(`update prescient.rule set definition = jsonb_set(definition::jsonb, $1, '"tz"')`, path)
		s.run(day(4))
		diff(t, []string(nil), s.published())
		is := s.state()["order.unshipped 1"]
		if !strings.Contains(is, "rule order.unshipped cannot be read by this version: ") || !strings.Contains(is, "later") {
			t.Errorf("%s: %s", path, is)
		}
	}
}

func TestDoneMayBeACondition(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Facts.Done = []expr.Expr{{SQL: "customer is null", Type: expr.Truth}}
	}))
	s.order(1)
	s.waits("1", day(4))
	s.exec(`update shop.orders set customer = null`)
	s.run(day(4))
	s.wants(map[string]string{"1": "done: done"})
}

// This is the example that Salesforce publishes: open, closed on day 3, opened again on day 5.
func TestADoneInTheFutureIsNotYet(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	for id, done := range map[int]any{1: day(4), 2: day(5), 3: "infinity", 4: "-infinity"} {
		s.order(id)
		s.exec("update shop.orders set shipped_at = $2 where id = $1", id, done)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.run(day(4))
	s.wants(map[string]string{
		"1": "done: done at 2030-03-05T12:00:00Z", "2": "day 7", "3": "day 7", "4": "done: done",
	})
	s.run(day(7))
	s.wants(map[string]string{
		"1": "done: done at 2030-03-05T12:00:00Z", "2": "done: done at 2030-03-06T12:00:00Z first", "3": "done: open first,final",
		"4": "done: done",
	})
}

// The outcome horizon would hide what the check has found.
func TestARowDoesNotWaitForADoneThatStandsForNever(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(func(a *rule.Applied) { a.Rule.Recovered.Event, a.Rule.Met.Event = "over", "met" }))
	s.exec("update prescient.rule set recovers_at = '2000-01-01'")
	s.order(1)
	s.exec("update shop.orders set shipped_at = '9999-12-31'")
	s.waits("1", day(4))
	s.run(day(4))
	s.wants(map[string]string{"1": "day 7"})
	s.run(day(7))
	s.wants(map[string]string{"1": "done: open first,final"})
}

func TestTheStepsThatPassedWhileAnOrderWasDoneDoNotFire(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.exec(`update shop.orders set shipped_at = $1`, day(3))
	s.run(day(4))
	s.wants(map[string]string{"1": "done: done at 2030-03-04T12:00:00Z"})

	s.exec(`update shop.orders set shipped_at = null`)
	s.waits("1", day(5), day(5))
	s.run(day(5))
	s.wants(map[string]string{"1": "day 7"})
	diff(t, []string(nil), s.published())
	s.run(day(7))
	s.wants(map[string]string{"1": "done: open final"})
	diff(t, []string{"order.unshipped.final 1"}, s.published())
}

func TestAnOrderThatIsOpenedAgainAfterTheLastStepEnds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	s.order(1)
	s.waits("1", day(8), day(8))
	s.run(day(8))
	s.wants(map[string]string{"1": "done: open"})
	diff(t, []string(nil), s.published())
}

// A trigger leaves the check as it is of a row that counts again before its first step.
func TestARowWaitsForATransactionThatMayLetItCount(t *testing.T) {
	t.Parallel()
	paid := func(a *rule.Applied) {
		a.Facts.Done = []expr.Expr{{
			SQL: "exists (select from shop.payment p where p.customer = orders.customer)", Type: expr.Truth, Lookup: true,
		}}
	}
	approved := func(a *rule.Applied) {
		a.Facts.Where = []expr.Expr{{
			SQL: "exists (select from shop.payment p where p.customer = orders.customer)", Type: expr.Truth, Lookup: true,
		}}
		a.Also = []rule.AppliedAlso{{Relation: "shop.payment", Key: rule.Texts{"customer"}, KeyType: rule.Texts{"text"}}}
	}
	for name, test := range map[string]struct {
		change         func(*rule.Applied)
		before, counts string // what the application writes
	}{
		"outside": {
			func(*rule.Applied) {}, "update shop.orders set channel = 'test'", "update shop.orders set channel = 'web'",
		},
		"done by a lookup": {paid, "insert into shop.payment values ('ada')", "update shop.orders set customer = 'bob'"},
		"it never fires": {
			func(a *rule.Applied) {
				a.Rule.Steps[0].Every, a.Rule.Steps[0].TimesCount = rule.Delay{Days: 3}, "length(customer)"
				a.Facts.Times = []expr.Expr{{SQL: "length(customer)", Type: expr.Count}, {}}
				a.Facts.Every = make([]expr.Expr, 2)
			},
			"update shop.orders set customer = ''", "update shop.orders set customer = 'ada'",
		},
		"outside by a lookup of a table of also": {
			approved, "update shop.orders set channel = 'web'", "insert into shop.payment values ('ada')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.quotesAll()
			s.exec("create table shop.payment (customer text)")
			s.apply(unshipped(test.change))
			s.order(1)
			s.waits("1", day(4))
			s.exec(test.before)
			writer := s.db.MustBegin()
			defer func() { _ = writer.Rollback() }()
			if _, err := writer.ExecContext(t.Context(), test.counts); err != nil {
				t.Fatal(err)
			}
			s.run(day(4))
			s.wants(map[string]string{"1": "day 4.01"})
			if err := writer.Commit(); err != nil {
				t.Fatal(err)
			}
			s.run(day(4).Add(15 * time.Minute))
			s.wants(map[string]string{"1": "day 7"})
			diff(t, []string{"order.unshipped.first 1"}, s.published())
		})
	}
}

// The check reads a row, and when it has changed, from two tables. The transaction that deletes the row is between.
func TestARowThatIsDeletedWhileItIsReadDoesNotCountFromTheFirstApply(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a snapshot of the coordinator does not hold for what is on a worker")
	const reading, wait = 1, 2 // advisory locks
	s := newShop(t)
	s.exec(fmt.Sprintf(`create function shop.wait() returns boolean language plpgsql as $$
		begin
			perform pg_advisory_xact_lock_shared(%d);
			while not pg_try_advisory_xact_lock_shared(%d) loop perform pg_sleep(0.01); end loop;
			return true;
		end $$`, reading, wait))
	s.apply(unshipped(func(a *rule.Applied) {
		a.Facts.Since, a.Facts.Changed, a.Facts.ChangedFrom = nil, []string{"channel"}, day(-30)
		a.Facts.Where = []expr.Expr{{SQL: "shop.wait()", Type: expr.Truth}}
	}))
	s.order(1)
	s.waits("1", day(4))
	s.exec("select prescient.rule_mark('order.unshipped', '{1}', $1)", day(3))
	writer := s.db.MustBegin()
	defer func() { _ = writer.Rollback() }()
	if _, err := writer.ExecContext(t.Context(), "select pg_advisory_xact_lock($1)", wait); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.tryRun(day(4))
		ended <- err
	}()
	await.True(t, "the check reads", func() bool {
		var n int
		if err := s.pool.GetContext(t.Context(), &n, "select count(*) from pg_locks where locktype = 'advisory' and objid = $1", reading); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("the run ended before, with %v: %v", err, s.state())
		default:
		}
		return n > 0
	})
	for _, statement := range []string{"delete from shop.orders", "select prescient.rule_mark('order.unshipped', '{1}', null)"} {
		if _, err := writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the end of the run", ended); err != nil {
		t.Fatal(err)
	}
	s.wants(map[string]string{"1": "day 4.01"})
	diff(t, []string(nil), s.published())
}

func TestAStepThatHasFiredDoesNotFireAgain(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.toOutbox()
	s.run(day(4))

	// The order is enqueued again, as by jobs add, or by a rule that is removed and applied.
	if _, err := s.client.Cancel(t.Context(), jobs.OwnTx(s.db), jobs.Key{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1"}); err != nil {
		t.Fatal(err)
	}
	s.waits("1", day(5))
	s.run(day(5))
	s.wants(map[string]string{"1": "day 7"})

	// Its clock starts on another day, and then on the first day again.
	s.exec(`update shop.orders set placed_at = $1`, day(1))
	s.run(day(7))
	s.wants(map[string]string{"1": "day 8"})
	s.exec(`update shop.orders set placed_at = $1`, day0)
	s.run(day(8))
	s.wants(map[string]string{"1": "done: open first,final"})
	diff(t, []string{"order.unshipped.first 1", "order.unshipped.first 1", "order.unshipped.final 1"}, s.outbox())
	var times []string
	if err := s.db.SelectContext(t.Context(), &times, `select to_char(time at time zone 'UTC', 'DD') from prescient.event_outbox order by position`); err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"05", "06", "08"}, times)
}

func TestAStepThatHasFiredDoesNotFireAgainBesideRowsForWhichItHasNot(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.exec(`create table shop.escalation (order_id bigint)`)
	s.apply(unshipped(steps(
		rule.Step{Name: "event", After: rule.Delay{Duration: 4 * day24}, Event: "late"},
		rule.Step{Name: "note", After: rule.Delay{Duration: 4 * day24}, SQL: `insert into shop.escalation values ($key)`},
	)))
	for id := range 9 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.exec(`insert into prescient.rule_fired (job, entity_key, since, step)
		select (select prescient.find_job('order.unshipped')), key, $1, 'event' from unnest('{2,5}'::text[]) as key`, day0)
	s.exec(`update shop.orders set shipped_at = $1 where id = 5`, day(3))
	s.run(day(4))
	got := s.state()
	diff(t, "done: open event,note", got["order.unshipped 2"])
	diff(t, "done: done at 2030-03-04T12:00:00Z event", got["order.unshipped 5"])
	diff(t, []string{"late 0", "late 1", "late 3", "late 4", "late 6", "late 7", "late 8"}, slices.Sorted(slices.Values(s.outbox())))
	diff(t, []string{"0", "1", "2", "3", "4", "6", "7", "8"}, s.strings(`select order_id::text from shop.escalation order by 1`))
}

func TestStepsThatAreDueTogetherFireInTheirOrder(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.toOutbox()
	s.run(day(4).Add(-15 * time.Minute))
	s.now = day(9)
	s.exec(`update prescient.future_job set first_check_at = $1, next_check_at = $1`, day(9)) // all slots before were missed
	s.run(day(9))
	s.wants(map[string]string{"1": "done: open first,final"})
	diff(t, []string{"order.unshipped.first 1", "order.unshipped.final 1"}, s.outbox())
}

func TestARunThatDiesBetweenFiringAndRecordingFiresEachStepOnce(t *testing.T) {
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.exec(`create table shop.escalation (order_id bigint, step text)`)
	s.apply(unshipped(steps(
		rule.Step{After: rule.Delay{Duration: 4 * day24}, Event: "first"},
		rule.Step{After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key, $step)"},
		rule.Step{After: rule.Delay{Duration: 4 * day24}, Job: "order.lost"},
	)))
	s.order(1)
	s.waits("1", day(4))
	// The record of the outcome fails three times, as if the run had died there.
	s.exec(`create sequence shop.tries`)
	s.exec(`create function shop.fail() returns trigger language plpgsql as $$
		begin if nextval('shop.tries') <= 3 then raise exception 'again' using errcode = '40001'; end if; return new; end $$`)
	s.exec(`create trigger fail before insert on prescient.slot_progress for each row execute function shop.fail()`)
	s.run(day(4))
	s.wants(map[string]string{"1": "done: open 1,2,3"})
	diff(t, []string{"first 1"}, s.outbox())
	diff(t, []string{"1 2"}, s.strings(`select order_id || ' ' || step from shop.escalation`))
	diff(t, []string{"1"}, s.strings(`select f.entity_key from prescient.future_job f join prescient.job using (job) where name = 'order.lost'`))
	var tries int
	if err := s.db.GetContext(t.Context(), &tries, `select last_value from shop.tries`); err != nil || tries < 4 {
		t.Errorf("%d tries, %v: want at least 4", tries, err)
	}
}

func TestAnEventThatIsNotRecordedIsPublishedAgainWithItsID(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`create table shop.escalation (order_id bigint)`)
	s.apply(unshipped(steps(
		rule.Step{After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key)"},
		rule.Step{After: rule.Delay{Duration: 4 * day24}, Event: "late"},
	)))
	s.order(1, 2)
	s.waits("1", day(4))
	s.waits("2", day(4))
	var ids []string
	s.publisher.Refuse = func(e event.Event) error {
		ids = append(ids, e.ID)
		return errors.New("the reply was lost")
	}
	s.run(day(4))
	s.wants(map[string]string{"1": "day 4.01 publish the events: the reply was lost", "2": "day 4.01 publish the events: the reply was lost"})
	diff(t, []string(nil), s.strings(`select order_id::text from shop.escalation`))
	s.publisher.Refuse = nil
	s.run(day(4).Add(15 * time.Minute))
	s.wants(map[string]string{"1": "done: open 1,2", "2": "done: open 1,2"})
	diff(t, []string{"1", "2"}, s.strings(`select order_id::text from shop.escalation order by 1`))
	diff(t, []string{"late 1", "late 2"}, s.published())
	if first := s.publisher.Events()[0].ID; ids[0] != first {
		t.Errorf("published %s, and %s before", first, ids[0])
	}
}

func TestAStepCanExecuteSQLWithTheValuesOfItsRow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`create table shop.escalation (order_id bigint, since timestamptz, step text, payload jsonb, note text)`)
	s.apply(unshipped(steps(rule.Step{Name: "note it", After: rule.Delay{Duration: 4 * day24}, SQL: `
		insert into shop.escalation -- for $key
		values ($key, $since, $step, $payload, '$key' || $q$ $step $q$ || e'\'$key' /* $key /* $key */ */ || $key)`})))
	s.order(1, 2)
	s.waits("1", day(4))
	s.waits("2", day(4))
	s.run(day(4))
	const of = `note it {"customer": "ada"} $key $step '$key`
	diff(t, []string{"1 2030-03-01 12 " + of + "1", "2 2030-03-01 12 " + of + "2"}, s.strings(`
		select concat_ws(' ', order_id, to_char(since at time zone 'UTC', 'YYYY-MM-DD HH24'), step, payload, note) from shop.escalation order by 1`))
}

func TestAStepThatRepeatsIsOneRowOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "nag", After: rule.Delay{Days: 1}, Every: rule.Delay{Days: 1}, Times: 9, Event: "nag"})))
	s.order(1)
	s.waits("1", day(1))
	var first []string
	for _, n := range []float64{1, 2, 3, 6} { // of 4 to 6, the last one fires
		s.exec("update prescient.future_job set next_check_at = $1", day(n))
		s.run(day(n))
		if n == 1 {
			first = s.strings("select fired_at::text from prescient.rule_fired where first_at is null")
		}
	}
	diff(t, []string{"nag 1", "nag 1", "nag 1", "nag 1"}, s.published())
	diff(t, []string{"nag 6 4"}, s.strings("select concat_ws(' ', step, number, times) from prescient.rule_fired"))
	diff(t, first, s.strings("select first_at::text from prescient.rule_fired"))
	// What has fired does not fire again.
	s.exec(`update prescient.rule_fired set number = 9, times = 5`)
	s.run(day(7))
	diff(t, []string{"nag 1", "nag 1", "nag 1", "nag 1"}, s.published())
}

// The first check of a row may not be the first that the rule has made of it.
func TestTheNextTimeOfAStepHasTheNextNumberAfterAChangeOfItsRule(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	nag := rule.Step{Name: "nag", After: rule.Delay{Days: 5}, Every: rule.Delay{Days: 2}, Times: 3, Event: "nag"}
	s.apply(unshipped(steps(nag)))
	s.order(1, 2)
	both := func(at time.Time) {
		s.waits("1", at)
		s.waits("2", at)
		s.run(at)
	}
	both(day(5))
	s.run(day(7))
	s.run(day(9))
	nag.Every, nag.Times = rule.Delay{Days: 1}, 10
	s.apply(unshipped(steps(nag)))
	both(day(10)) // as the apply does
	diff(t, []string{"4", "4"}, s.strings("select number::text from prescient.rule_fired"))
}

// Such as by another timezone of the rule.
func TestOneStartOfTheClockIsToldToBeOverOnceThoughItsInstantHasChanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add local_at timestamp")
	in := func(zone string) {
		s.apply(unshipped(steps(rule.Step{Name: "first", After: rule.Delay{Days: 4}, Event: "first"}), func(a *rule.Applied) {
			a.Rule.Since, a.Facts.Since = rule.Texts{"local_at"}, []expr.Expr{{SQL: "local_at", Type: expr.Local}}
			a.Reads, a.Rule.Timezone, a.Facts.Zone = append(a.Reads, "local_at"), zone, zone
			a.Rule.Recovered = rule.Act{Event: "over"}
		}))
		s.exec("update prescient.rule set recovers_at = '2000-01-01'")
	}
	in("America/Edmonton")
	s.order(1)
	s.exec("update shop.orders set local_at = $1::timestamptz at time zone 'America/Edmonton'", day0)
	s.waits("1", day(4))
	s.run(day(4))
	in("Europe/Berlin")
	s.exec("update shop.orders set shipped_at = $1", day(4.5))
	s.waits("1", day(5)) // as the trigger does
	s.run(day(5))
	s.exec("update shop.orders set shipped_at = null, local_at = local_at + interval '5 days'")
	s.waits("1", day(6))
	s.run(day(6))
	diff(t, []string{"first 1", "over 1"}, s.published())
}

// An update of zone data makes another instant of the same value.
func TestAStepDoesNotFireAgainForTheSameValueInAZoneWithAnotherLaw(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add local_at timestamp")
	local := func(a *rule.Applied) {
		a.Rule.Since, a.Facts.Since = rule.Texts{"local_at"}, []expr.Expr{{SQL: "local_at", Type: expr.Local}}
		a.Reads, a.Rule.Timezone, a.Facts.Zone = append(a.Reads, "local_at"), "America/Edmonton", "America/Edmonton"
	}
	s.apply(unshipped(local))
	s.order(1, 2)
	s.exec("update shop.orders set local_at = $1::timestamptz at time zone 'America/Edmonton'", day0)
	s.waits("1", day(4))
	s.waits("2", day(4))
	s.run(day(4))
	before := s.published()
	if len(before) != 2 {
		t.Fatalf("published %q", before)
	}
	// The server had another law when the steps fired.
	s.exec("update prescient.rule_fired set since = (since at time zone 'UTC' - interval '1 hour') at time zone 'UTC'")
	s.exec("update shop.orders set local_at = local_at + interval '1 second' where id = 2") // another value is another start
	s.exec(`update prescient.future_job set next_check_at = $1`, day(5))
	s.run(day(5))
	if after := s.published(); len(after) != 3 {
		t.Errorf("published %q, and before %q", after, before)
	}
}

func TestAStatementGoesByTheClocksOfItsRule(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on distributed tables")
	s := newShop(t)
	s.exec(`create table shop.escalation (order_id bigint, since timestamp, now timestamp);
		create table shop.recorded (zone text default current_setting('timezone'), role text default current_setting('role'));
		create function shop.record() returns trigger language plpgsql as $$ begin insert into shop.recorded default values; return null; end $$;
		create trigger recorded after insert on prescient.rule_fired for each statement execute function shop.record()`)
	var name string
	if err := s.db.GetContext(t.Context(), &name, "select current_database()"); err != nil {
		t.Fatal(err)
	}
	s.exec("alter database " + name + " set timezone = 'Asia/Tokyo'")
	s.db.SetMaxIdleConns(0) // sessions that have the setting
	s.apply(unshipped(
		steps(rule.Step{Name: "note", After: rule.Delay{Days: 4}, SQL: "insert into shop.escalation values ($key, $since, $now)"}),
		func(a *rule.Applied) { a.Rule.Timezone = "America/New_York" }))
	s.order(1, 2)
	s.waits("1", day(4))
	s.waits("2", day(4))
	s.run(day(4))
	diff(t, []string{"1 2030-03-01 07:00 2030-03-05 07:00", "2 2030-03-01 07:00 2030-03-05 07:00"}, s.strings(`
		select concat_ws(' ', order_id, to_char(since, 'YYYY-MM-DD HH24:MI'), to_char(now, 'YYYY-MM-DD HH24:MI')) from shop.escalation order by 1`))
	diff(t, []string{"Asia/Tokyo none"}, s.strings("select zone || ' ' || role from shop.recorded"))
}

// ofRow lets column customer name the zone of a row.
func ofRow(a *rule.Applied) {
	a.Rule.TimezoneName, a.Facts.Timezone = "customer", expr.Expr{SQL: "customer", Type: expr.Text}
}

func TestAStatementAndAMessageGoByTheClocksOfTheirRow(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on distributed tables")
	s := newShop(t)
	s.exec(`create table shop.escalation (order_id bigint, since timestamp);
		create table shop.recorded (zone text default current_setting('timezone'));
		create function shop.record() returns trigger language plpgsql as $$ begin insert into shop.recorded default values; return null; end $$;
		create trigger recorded after insert on prescient.rule_fired for each statement execute function shop.record()`)
	s.apply(unshipped(ofRow, steps(rule.Step{
		Name: "note", After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key, $since)",
		Notify: notify("ops", "{{.key}} since {{.since}}", "", "09:00"),
	})))
	s.order(1, 2, 3, 4, 5)
	s.exec(`update shop.orders set customer = (array['America/New_York', 'Asia/Tokyo', 'America/New_York', 'Mars', null])[id]`)
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		s.waits(key, day(4))
	}
	s.run(day(4))
	diff(t, []string{"1 2030-03-01 07:00", "2 2030-03-01 21:00", "3 2030-03-01 07:00"}, s.strings(`
		select concat_ws(' ', order_id, to_char(since, 'YYYY-MM-DD HH24:MI')) from shop.escalation order by 1`))
	diff(t, []string{"UTC"}, s.strings("select zone from shop.recorded"))
	got := s.messages()
	slices.Sort(got)
	diff(t, []string{
		"ops: 1 since 2030-03-01 07:00 EST <> false at 2030-03-05T14:00:00Z", "ops: 2 since 2030-03-01 21:00 JST <> false at 2030-03-06T00:00:00Z",
		"ops: 3 since 2030-03-01 07:00 EST <> false at 2030-03-05T14:00:00Z",
	}, got)
	diff(t, []string{
		`4 timezone: customer is "Mars": unknown time zone Mars: use a name of the IANA database, such as Europe/Berlin`,
		`5 timezone: customer is null. Set it, or write a default, such as coalesce(customer, 'Europe/Berlin')`,
	}, s.strings("select entity_key || ' ' || last_error from prescient.future_job order by entity_key"))
}

// As the trigger of a table does whose row the statement updates. The clock is the database's.
func TestAStepThatMovesItsOwnRowIsOfTheCheckThatFiredIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("select prescient.set_width('1 second')")
	s.apply(unshipped(steps(rule.Step{Name: "later", SQL: `
		select prescient.rule_wait('order.unshipped', 'order', $key::text, $since + interval '9 days')`})))
	s.exec("insert into shop.orders (id, placed_at) values (1, now() - interval '1 day')")
	s.exec("select prescient.rule_wait('order.unshipped', 'order', '1', now() - interval '1 day')")
	runner, err := slots.NewRunner(t.Context(), slots.Config{DB: s.db, Registry: s.registry, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var slot time.Time
	for begun := false; !begun; {
		err := s.db.QueryRowContext(t.Context(), "select next_check_at, next_check_at <= clock_timestamp() from prescient.future_job").Scan(&slot, &begun)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runner.Run(t.Context(), slot); err != nil {
		t.Fatal(err)
	}
	entries, err := admin.New(s.client).Timeline(t.Context(), s.db, jobs.Key{EntityName: "order", EntityKey: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		text := e.What
		for _, f := range e.Fired {
			text += " " + f.Step
		}
		got = append(got, text)
	}
	diff(t, []string{"enqueued", "recorded", "done later", "enqueued", "honoured", "waiting"}, got)
}

func TestARowThatIsMovedLaterWasRequestedForItsFirstSlot(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "later", Event: "order.late"})))
	for _, at := range []string{"2040-03-01 13:05Z", "2040-06-01 13:05Z"} {
		s.exec("select prescient.rule_wait('order.unshipped', 'order', '1', $1)", at)
	}
	entries, err := admin.New(s.client).Timeline(t.Context(), s.db, jobs.Key{EntityName: "order", EntityKey: "1"})
	if err != nil {
		t.Fatal(err)
	}
	first := time.Date(2040, 3, 1, 13, 15, 0, 0, time.UTC)
	if e := entries[0]; e.What != "enqueued" || !e.Slot.Equal(first) || e.RequestedFor.After(first) {
		t.Errorf("%s for %s in slot %s, want an instant up to %s", e.What, e.RequestedFor, e.Slot, first)
	}
}

func TestSQLThatFailsIsTheErrorOfItsRowAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.exec(`create table shop.escalation (order_id bigint check (order_id <> 2))`)
	s.apply(unshipped(steps(
		rule.Step{Name: "event", After: rule.Delay{Duration: 4 * day24}, Event: "late"},
		rule.Step{Name: "note", After: rule.Delay{Duration: 4 * day24}, SQL: `insert into shop.escalation values ($key)`},
		rule.Step{Name: "job", After: rule.Delay{Duration: 4 * day24}, Job: "order.lost"},
		rule.Step{Name: "later", After: rule.Delay{Duration: 5 * day24}, Event: "later"},
	)))
	for id := range 5 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.run(day(4))
	got := s.state()
	if !strings.HasPrefix(got["order.unshipped 2"], "day 4.01 step note: pq: new row for relation") || got["order.unshipped 1"] != "day 5" {
		t.Errorf("%v", got)
	}
	if _, enqueued := got["order.lost 2"]; enqueued || got["order.lost 3"] == "" {
		t.Errorf("%v", got)
	}
	diff(t, []string{"late 0", "late 1", "late 3", "late 4"}, s.outbox())
	diff(t, []string{"0", "1", "3", "4"}, s.strings(`select order_id::text from shop.escalation order by 1`))
	s.exec(`alter table shop.escalation drop constraint escalation_order_id_check`)
	s.run(day(4).Add(15 * time.Minute))
	diff(t, "day 5", s.state()["order.unshipped 2"])
	diff(t, []string{"late 0", "late 1", "late 3", "late 4", "late 2"}, s.outbox())
	diff(t, []string{"0", "1", "2", "3", "4"}, s.strings(`select order_id::text from shop.escalation order by 1`))
}

// A statement that closes its row takes neither the event nor the job of its own step away.
func TestAStepDoesNotActOnARowThatWasDoneBefore(t *testing.T) {
	t.Parallel()
	for name, outbox := range map[string]bool{"with the outbox": true, "with another publisher": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			if outbox {
				s.toOutbox()
			}
			s.exec(`create table shop.act (order_id bigint, x text)`)
			s.apply(unshipped(steps(rule.Step{
				Name: "act", After: rule.Delay{Duration: 4 * day24}, Event: "late", SQL: `insert into shop.act select $key, pg_sleep(0.3)::text`,
			})))
			for id := range 4 {
				s.order(id)
				s.waits(fmt.Sprint(id), day(4))
			}
			wait := s.closeOnceOneActs("id > 1")
			s.run(day(4))
			wait()
			diff(t, []string{"0", "1"}, s.strings(`select order_id::text from shop.act order by 1`))
			s.wants(map[string]string{
				"0": "done: open act", "1": "done: open act", "2": "done: done at 2030-03-04T12:00:00Z", "3": "done: done at 2030-03-04T12:00:00Z",
			})
			if outbox {
				diff(t, []string{"late 0", "late 1"}, s.outbox())
			}
		})
	}
}

// waitsUntil lets the statement of order 0 wait until a condition is true. Those of other orders act at once.
func (s *shop) waitsUntil(condition string) (statement string) {
	s.t.Helper()
	s.exec(`create table shop.act (order_id bigint)`)
	s.exec(`
		create function shop.act(id bigint) returns bigint language plpgsql as $$
		begin
			while id = 0 and not (` + condition + `) loop
				perform pg_sleep(0.01);
			end loop;
			return id;
		end
		$$`)
	return `insert into shop.act values (shop.act($key))`
}

// isClosed is true once an order is done.
func isClosed(id int) string {
	return fmt.Sprintf("exists (select from shop.orders o where o.id = %d and o.shipped_at is not null)", id)
}

// onceOneActs calls do once the statement of a step sleeps. The function wait returns when it has.
func (s *shop) onceOneActs(do func() error) (wait func()) {
	did := make(chan error, 1)
	go func() {
		acts := func() bool {
			var n int
			err := s.pool.Get(&n, `select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`)
			return err == nil && n > 0
		}
		for end := time.Now().Add(await.Limit); !acts() && time.Now().Before(end); {
		}
		did <- do()
	}()
	return func() {
		s.t.Helper()
		if err := <-did; err != nil {
			s.t.Fatal(err)
		}
	}
}

// execOnceOneActs executes a statement once that of a step sleeps.
func (s *shop) execOnceOneActs(statement string) (wait func()) {
	return s.onceOneActs(func() error {
		_, err := s.db.Exec(statement)
		return err
	})
}

// closeOnceOneActs closes orders once the statement of a step sleeps.
func (s *shop) closeOnceOneActs(which string) (wait func()) {
	return s.execOnceOneActs(fmt.Sprintf(`update shop.orders set shipped_at = '%s' where %s`, day(3).Format(time.RFC3339), which))
}

// Statements that act at once leave no row behind that was read before the one that took long.
func TestNoStepActsOnARowThatWasDoneDuringTheStatementOfAnother(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "act", After: rule.Delay{Duration: 4 * day24}, SQL: s.waitsUntil(isClosed(1))})))
	for id := range 150 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	wait := s.closeOnceOneActs("id > 0")
	s.run(day(4))
	wait()
	diff(t, []string{"0"}, s.strings(`select order_id::text from shop.act order by 1`))
}

// An instant between the beginning of the check and its second look is no longer to come.
func TestNoStepActsOnARowThatIsDoneSinceTheCheckBegan(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "act", After: rule.Delay{Duration: 4 * day24}, SQL: s.waitsUntil(isClosed(1))})))
	for id := range 3 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	now := day(4).Add(time.Millisecond).Format(time.RFC3339Nano)
	wait := s.execOnceOneActs("update shop.orders set shipped_at = '" + now + "' where id > 0")
	s.run(day(4))
	wait()
	diff(t, []string{"0"}, s.strings(`select order_id::text from shop.act order by 1`))
	s.run(day(4).Add(15 * time.Minute)) // by then, no transaction takes the instant back that it has seen to come
	s.wants(map[string]string{"0": "done: open act", "1": "done: done at 2030-03-05T12:00:00.001Z", "2": "done: done at 2030-03-05T12:00:00.001Z"})
}

// The row that is decided about again has an error, so the statements act one by one after the other failed.
func TestARowWithAnErrorTakesNoStatementFromTheRowsBehindIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.apply(unshipped(
		steps(rule.Step{Name: "act", After: rule.Delay{Days: 4}, Event: "late", SQL: s.waitsUntil(
			"exists (select from shop.orders o where o.id = 1 and o.customer <> 'UTC')")}),
		func(a *rule.Applied) {
			a.Rule.TimezoneName, a.Facts.Timezone = "customer", expr.Expr{SQL: "customer", Type: expr.Text}
		}))
	s.exec("alter table shop.act add check (order_id <> 2)")
	for id := range 4 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.exec("update shop.orders set customer = 'UTC'")
	wait := s.execOnceOneActs("update shop.orders set customer = 'nowhere' where id = 1")
	s.run(day(4))
	wait()
	diff(t, []string{"0", "3"}, s.strings(`select order_id::text from shop.act order by 1`))
	diff(t, []string{"late 0", "late 3"}, s.outbox())
	state := s.state()
	for id, want := range map[string]string{"1": "nowhere", "2": "check constraint"} {
		if got := state["order.unshipped "+id]; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// By another session, such as with alter table. What was read before is not enough to act on.
func TestNoStepActsOnARowWhoseTableWasLockedDuringTheStatementOfAnother(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.apply(unshipped(steps(
		rule.Step{Name: "act", After: rule.Delay{Duration: 4 * day24}, SQL: s.waitsUntil(
			"exists (select from pg_locks where relation = 'shop.orders'::regclass and mode = 'AccessExclusiveLock' and granted)")},
		rule.Step{Name: "late", After: rule.Delay{Duration: 7 * day24}, Event: "late"},
	)))
	s.exec(`insert into shop.orders (id, customer, placed_at) values (2, 'ada', $1)`, day(-3))
	s.waits("2", day(1))
	s.run(day(1))
	for id := range 2 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	lock, err := s.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback() }()
	wait := s.onceOneActs(func() error {
		_, err := lock.Exec("lock table shop.orders in access exclusive mode")
		return err
	})
	s.run(day(4))
	wait()
	diff(t, []string{"0", "2"}, s.strings(`select order_id::text from shop.act order by 1`))
	diff(t, []string(nil), s.outbox())
	next := fmt.Sprintf("day %.4g", grid.Default.Next(day(4)).Sub(day0).Hours()/24)
	s.wants(map[string]string{"0": "day 7", "1": next, "2": next})
}

// What was read before counts then, or the page would wait for itself.
func TestAStatementThatLocksItsTableHoldsBackNoOtherRow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.quotesAll()
	s.exec(`create table shop.act (order_id bigint);
		create function shop.lock(id bigint) returns bigint language plpgsql as $$
		begin
			lock table shop.orders in access exclusive mode;
			perform pg_sleep(0.02);
			return id;
		end
		$$`)
	s.apply(unshipped(steps(rule.Step{Name: "act", After: rule.Delay{Duration: 4 * day24}, SQL: `insert into shop.act values (shop.lock($key))`})))
	for id := range 3 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.run(day(4))
	acted := len(s.strings(`select order_id::text from shop.act`))
	if acted < 2 { // the second one has waited for the lock, and the page holds its rows for a second
		t.Errorf("%d rows acted", acted)
	}
}

func TestAStatementAndTheEventOfItsStepHaveTheSamePayload(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	act := s.waitsUntil("exists (select from shop.orders o where o.id = 1 and o.customer <> 'ada')")
	s.exec(`create table shop.told (order_id bigint, payload jsonb)`)
	s.apply(unshipped(steps(rule.Step{
		Name: "act", After: rule.Delay{Duration: 4 * day24}, Event: "late",
		SQL: "with act as (" + act + " returning order_id) insert into shop.told select order_id, $payload::jsonb from act",
	})))
	for id := range 2 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	wait := s.execOnceOneActs("update shop.orders set customer = 'eve' where id = 1")
	s.run(day(4))
	wait()
	want := []string{"ada", "eve"}
	diff(t, want, s.strings(`select payload ->> 'customer' from shop.told order by order_id`))
	diff(t, want, s.strings(`select data -> 'payload' ->> 'customer' from prescient.event_outbox order by subject`))
}

func TestNoEventIsPublishedAboutARowThatWasDoneDuringTheStatementOfAnother(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.apply(unshipped(steps(
		rule.Step{Name: "act", After: rule.Delay{Duration: 4 * day24}, SQL: s.waitsUntil(isClosed(1))},
		rule.Step{Name: "late", After: rule.Delay{Duration: 7 * day24}, Event: "late"},
	)))
	s.exec(`insert into shop.orders (id, customer, placed_at) select n, 'ada', $1 from generate_series(1, 2) as n`, day(-3))
	for _, id := range []string{"1", "2"} {
		s.waits(id, day(1))
	}
	s.run(day(1))
	s.order(0)
	s.waits("0", day(4))
	wait := s.closeOnceOneActs("id = 1")
	s.run(day(4))
	wait()
	diff(t, []string{"late 2"}, s.outbox())
	s.wants(map[string]string{"0": "day 7", "1": "done: done at 2030-03-04T12:00:00Z act", "2": "done: open act,late"})
}

// However long it takes: another read would take as long, and would be as old when it ends.
func TestAPageWithoutStatementsIsReadOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Facts.Where = []expr.Expr{{SQL: "pg_sleep(0.02) is not null", Type: expr.Truth}}
	}))
	for id := range 3 {
		s.order(id)
		s.waits(fmt.Sprint(id), day(4))
	}
	s.run(day(4))
	s.wants(map[string]string{"0": "day 7", "1": "day 7", "2": "day 7"})
	if n := s.reads.Load(); n != 1 {
		t.Errorf("the orders were read %d times, want once", n)
	}
}

// An application that writes to a row waits for the transaction that has it.
func TestSlowStatementsHoldTheRowsOfAPageForASecondOrTwo(t *testing.T) {
	t.Parallel()
	for name, outbox := range map[string]bool{"with the outbox": true, "with another publisher": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			if outbox {
				s.toOutbox()
			}
			s.exec(`create table shop.slow (order_id bigint, tx xid8 default pg_current_xact_id(), x text)`)
			s.apply(unshipped(steps(rule.Step{
				Name: "slow", After: rule.Delay{Duration: 4 * day24}, Event: "late",
				SQL: `insert into shop.slow (order_id, x) select $key, pg_sleep(0.1)::text`,
			})))
			want := map[string]string{}
			for id := range 30 {
				s.order(id)
				s.waits(fmt.Sprint(id), day(4))
				want[fmt.Sprint(id)] = "done: open slow"
			}
			s.run(day(4))
			s.wants(want)
			var got struct{ Rows, Txs, Most int }
			err := s.db.GetContext(t.Context(), &got, `
				select sum(n) as rows, count(*) as txs, max(n) as most from (select count(*) as n from shop.slow group by tx) as t`)
			if err != nil || got.Rows != 30 || got.Txs < 3 || got.Most > 15 {
				t.Errorf("%+v, %v", got, err)
			}
			ids := map[string]bool{}
			for _, e := range s.publisher.Events() {
				ids[e.ID] = true
			}
			if fired := len(s.outbox()); outbox && fired != 30 || !outbox && len(ids) != 30 {
				t.Errorf("%d events in the outbox, %d published", fired, len(ids))
			}
			if n := len(s.publisher.Events()); n > 60 {
				t.Errorf("%d events were published", n)
			}
		})
	}
}

func TestAStepDoesSeveralThingsForTheRowAsItWas(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.toOutbox()
	s.apply(unshipped(steps(
		rule.Step{
			Name: "lost", After: rule.Delay{Duration: 4 * day24}, Event: "late", Job: "order.lost",
			SQL: `update shop.orders set shipped_at = now(), customer = 'nobody' where id = $key`,
		},
		rule.Step{Name: "later", After: rule.Delay{Duration: 5 * day24}, Event: "later"},
	)))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	diff(t, []string{"late 1"}, s.outbox())
	diff(t, []string{"ada"}, s.strings(`select data -> 'payload' ->> 'customer' from prescient.event_outbox`))
	diff(t, []string{"ada"}, s.strings(`select payload -> 'payload' ->> 'customer' from prescient.future_job where entity_key = '1' and payload ? 'payload'`))
	diff(t, []string{"nobody"}, s.strings(`select customer from shop.orders`))
	s.run(day(5))
	diff(t, []string{"late 1"}, s.outbox())
}

func TestAStepCanEnqueueAJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(steps(rule.Step{Name: "lost", After: rule.Delay{Duration: 4 * day24}, Job: "order.lost"})))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	diff(t, map[string]string{"order.unshipped 1": "done: open lost", "order.lost 1": "day 4.01"}, s.state())
	diff(t, []string{"order order.unshipped lost"}, s.strings(`
		select entity_name || ' ' || (payload ->> 'rule') || ' ' || (payload ->> 'step') from prescient.future_job`))
}

func TestACheckThatMayNotReadItsTableSaysWhichGrantsItNeeds(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	s := newShop(t)
	login := "rule_denied_" + strings.ToLower(rand.Text())
	role := login + "_role"
	s.exec("create role " + login + " login password '" + login + "'; create role " + role)
	pgtest.DropRoles(t, s.db, login)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, login)
	if s.pool, err = pgsql.Open(t.Context(), u.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.pool.Close() })
	s.order(1)
	s.waits("1", day(4))
	quoted := func(a *rule.Applied) {
		a.Payload, a.Reads = []string{`"customer"`}, []string{`"id"`, `"placed_at"`, `"channel"`, `"shipped_at"`}
	}
	run := func() {
		var slot time.Time
		if err := s.db.GetContext(t.Context(), &slot, "select next_check_at from prescient.future_job"); err != nil {
			t.Fatal(err)
		}
		s.run(slot)
	}
	usage, read := "grant usage on schema shop to ", "grant select on shop.orders to "
	for _, test := range []struct{ what, role, grants string }{
		{"the login has no right", "", usage + login + "; " + read + login},
		{"the login may use the schema", "", read + login},
		{"the login is no member of the role", role, `grant "` + role + `" to ` + login},
		{"the role has no right", role, usage + role + "; " + read + role},
		{"one column of the role is missing", role, read + role},
	} {
		s.apply(unshipped(quoted, func(a *rule.Applied) { a.Rule.Role = test.role }))
		run()
		got := s.state()["order.unshipped 1"]
		if !strings.Contains(got, "permission denied") || !strings.HasSuffix(got, ": "+test.grants) {
			t.Errorf("%s: %s", test.what, got)
		}
		switch test.what {
		case "the login has no right":
			s.exec(usage + login)
		case "the role has no right":
			s.exec(usage + role + "; grant select (id, placed_at, channel, shipped_at) on shop.orders to " + role)
		default:
			s.exec(test.grants)
		}
	}
	run()
	s.wants(map[string]string{"1": "day 7"})
}

func TestARuleReadsItsTableAndExecutesItsSQLAsItsRole(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	s := newShop(t)
	role := "rule_reader_" + strings.ToLower(rand.Text())
	s.exec("create role " + role)
	pgtest.DropRoles(t, s.db, role)
	s.exec(`create table shop.escalation (order_id bigint, by name default current_user)`)
	s.exec(`grant usage on schema shop to ` + role)
	s.apply(unshipped(
		steps(rule.Step{After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key)"}),
		func(a *rule.Applied) { a.Rule.Role = role }))
	s.order(1, 2)
	s.waits("1", day(4))
	s.waits("2", day(4))
	s.run(day(4))
	if got := s.state()["order.unshipped 1"]; !strings.Contains(got, "permission denied for table orders") {
		t.Errorf("%s", got)
	}
	s.exec(`grant select on shop.orders to ` + role)
	s.run(day(4).Add(15 * time.Minute))
	needs := "permission denied for table escalation (42501). The role " + role +
		" of the rule executes the statement: grant it the right"
	if got := s.state()["order.unshipped 1"]; !strings.Contains(got, needs) {
		t.Errorf("%s, want %s", got, needs)
	}
	s.exec(`grant insert on shop.escalation to ` + role)
	s.exec(`alter table shop.escalation enable row level security`)
	s.run(day(4).Add(45 * time.Minute))
	needs = `new row violates row-level security policy for table "escalation" (42501). The role ` + role +
		" of the rule executes the statement: create a policy that lets it write the row"
	if got := s.state()["order.unshipped 1"]; !strings.Contains(got, needs) {
		t.Errorf("%s, want %s", got, needs)
	}
	s.exec(`alter table shop.escalation disable row level security`)
	s.run(day(4).Add(105 * time.Minute))
	s.wants(map[string]string{"1": "done: open 1", "2": "done: open 1"})
	diff(t, []string{"1 " + role, "2 " + role}, s.strings(`select order_id || ' ' || by from shop.escalation order by 1`))
}

// A row that the role may not see is not gone.
func TestARowThatRowSecurityHidesIsAnErrorAndNotGone(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	s := newShop(t)
	role := "rule_reader_" + strings.ToLower(rand.Text())
	s.exec("create role " + role)
	pgtest.DropRoles(t, s.db, role)
	s.exec("grant usage on schema shop to " + role + "; grant select on shop.orders to " + role)
	s.exec("alter table shop.orders enable row level security; create policy mine on shop.orders using (id > 1)")
	s.apply(unshipped(func(a *rule.Applied) { a.Rule.Role = role }))
	s.order(1)
	s.waits("1", day(4))
	s.run(day(4))
	if got := s.state()["order.unshipped 1"]; !strings.HasSuffix(got, `row-level security policy for table "orders" (42501). `+
		"Rows that it hides would look gone: give the rule a role that owns the table, or one with bypassrls") {
		t.Errorf("%s", got)
	}
}

func TestRowsOfARuleThatIsRemovedEnd(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.exec(`update prescient.rule set state = 'removing'`)
	s.run(day(4))
	s.wants(map[string]string{"1": "done: the rule is removed"})
	diff(t, []string(nil), s.published())
}

func TestRowsOfARuleThatIsPausedWait(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	if _, err := admin.New(s.client).Pause(t.Context(), s.db, "order.unshipped"); err != nil {
		t.Fatal(err)
	}
	s.run(day(4))
	s.wants(map[string]string{"1": "day 4"})
	diff(t, []string(nil), s.published())
}

// The check that has left out a step is gone when the data give another step of the row another delay.
func TestAStepThatWasLeftOutStaysSoWhenItsRowComesAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Rule.Overdue = rule.Overdue{Policy: rule.OverdueLast}
		a.Facts.After = []expr.Expr{{}, {SQL: "make_interval(days => length(customer))", Type: expr.Span}}
	}, steps(
		rule.Step{Name: "left", After: rule.Delay{Days: 1}, Event: "left"},
		rule.Step{Name: "last", Interval: "make_interval(days => length(customer))", Event: "last"},
	)))
	s.order(1)
	comes := func(at time.Time) {
		t.Helper()
		job := jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: "1", CheckAt: at}
		if err := job.SetPayload(map[string]time.Time{"came": at}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Enqueue(t.Context(), jobs.OwnTx(s.db), job); err != nil {
			t.Fatal(err)
		}
		s.run(at)
	}
	comes(day(5))
	diff(t, []string{"last 1"}, s.published())
	s.wants(map[string]string{"1": "done: open last"})
	s.exec("update shop.orders set customer = 'Ada Lovelace'")
	comes(day(6))
	diff(t, []string{"last 1"}, s.published())
}

func TestARuleThatChangesKeepsWhatHasFired(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.run(day(4))
	s.apply(unshipped(steps(
		rule.Step{Name: "first", After: rule.Delay{Duration: 5 * day24}, Event: "first"},
		rule.Step{Name: "new", After: rule.Delay{Duration: 6 * day24}, Event: "new"},
		rule.Step{Name: "final", After: rule.Delay{Duration: 7 * day24}, Event: "final"},
	)))
	s.run(day(7))
	s.wants(map[string]string{"1": "done: open first,new,final"})
	diff(t, []string{"order.unshipped.first 1", "new 1", "final 1"}, s.published())
}

func TestARowThatNoRuleHasMadeIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.waits("no number", day(4))
	for _, job := range []jobs.Request{
		{EntityName: "bill", EntityKey: "2"}, {EntityName: "order", EntityKey: "3", ItemKey: "a"}, {EntityName: "order", EntityKey: "4", Anonymous: true},
	} {
		job.JobExec, job.CheckAt = "order.unshipped", day(4)
		if _, err := s.client.Enqueue(t.Context(), jobs.OwnTx(s.db), job); err != nil {
			t.Fatal(err)
		}
	}
	s.run(day(4))
	got := s.state()
	for id, want := range map[string]string{
		"1": "day 7", "2": "day 4.01 the row stands for no row of shop.orders", "3": "day 4.01 the row stands", "4": "day 4.01 the row stands",
		"no number": `day 4.01 read shop.orders for rule order.unshipped: pq: invalid input syntax for type bigint`,
	} {
		if !strings.HasPrefix(got["order.unshipped "+id], want) {
			t.Errorf("%s: %s, want %s", id, got["order.unshipped "+id], want)
		}
	}
}

func TestAValueThatWasRenamedIsToldWithWhatToDo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`create type shop.state as enum ('new', 'sent'); alter table shop.orders add state shop.state default 'new'`)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Facts.Where = []expr.Expr{{SQL: "state = 'new'::shop.state", Type: expr.Truth}}
	}))
	s.order(1, 2)
	s.waits("1", day(4))
	s.waits("2", day(4))
	s.exec("alter type shop.state rename value 'new' to 'open'")
	s.run(day(4))
	const want = `day 4.01 read shop.orders for rule order.unshipped: pq: invalid input value for enum shop.state: "new" at position 8:19 (22P02). ` +
		"If the value has another name now, apply the file of the rule with that name"
	s.wants(map[string]string{"1": want, "2": want})
}

func TestAKeyWithALineBreakIsWrittenAsInAURL(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders alter id type text")
	s.apply(unshipped(func(a *rule.Applied) { a.KeyType = rule.Texts{"text"} }))
	s.exec("insert into shop.orders (id, placed_at) values ($1, $2)", "a\nb", day0)
	s.waits("a\nb", day(4))
	s.run(day(4))
	s.wants(map[string]string{"a\nb": "day 7"})
	diff(t, []string{"order.unshipped.first a%0Ab"}, s.published())
}

func TestAPayloadThatIsTooLargeIsTheErrorOfItsRowAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	s.order(1, 2, 3)
	s.exec(`update shop.orders set customer = repeat('a', 17 << 20) where id = 2`)
	s.exec(`update shop.orders set customer = repeat('a', 10 << 20) where id <> 2`)
	for _, id := range []string{"1", "2", "3"} {
		s.waits(id, day(4))
	}
	s.run(day(4))
	s.wants(map[string]string{
		"1": "day 7", "3": "day 7",
		"2": `day 4.01 the payload of rule order.unshipped exceeds 16 MiB for key "2". Select what consumers need, or where they find it`,
	})
}

func TestAKeyMayBeOfAnyType(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, key := range map[string]string{"uuid": "0e37df36-f698-11e6-8dd4-cb9ced3df976", "text": "it's $key", "numeric(6,2)": "12.50", "date": "2030-03-01"} {
		s.exec(`drop table if exists shop.orders, shop.escalation`)
		s.exec(`create table shop.orders (id ` + name + ` primary key, placed_at timestamptz, shipped_at timestamptz, channel text not null default 'web', customer text)`)
		s.exec(`create table shop.escalation (id ` + name + `)`)
		s.exec(`insert into shop.orders values ($1, $2)`, key, day0)
		s.apply(unshipped(steps(rule.Step{After: rule.Delay{Duration: 4 * day24}, SQL: "insert into shop.escalation values ($key)"}), func(a *rule.Applied) { a.KeyType = rule.Texts{name} }))
		s.waits(key, day(4))
		s.now = day0
		s.exec(`delete from prescient.slot_run`)
		s.run(day(4))
		diff(t, []string{key}, s.strings(`select id::text from shop.escalation`))
		s.now = day0
	}
}

func TestRegisterRefusesAConfigurationThatLacksAField(t *testing.T) {
	t.Parallel()
	if err := rule.Register(jobs.NewRegistry(), rule.CheckConfig{}); err == nil || !cmp.Equal(err.Error(), "register rules: DB and Publisher must be set, and Timeout not negative") {
		t.Errorf("%v", err)
	}
}

// strings returns the column of a query.
func (s *shop) strings(query string) (list []string) {
	s.t.Helper()
	if err := s.db.SelectContext(s.t.Context(), &list, query); err != nil {
		s.t.Fatal(err)
	}
	return list
}

func TestTheSummaryOfARuleCountsHowItsRowsEnded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	s.order(1, 2, 3, 4, 5)
	for id := range 6 {
		s.waits(fmt.Sprint(id+1), day(4))
	}
	s.waits("7", day(7))
	s.exec(`update shop.orders set shipped_at = $1 where id in (1, 2)`, day(3))
	s.exec(`update shop.orders set channel = 'test' where id = 3`)
	s.run(day(4))
	s.exec(`update shop.orders set shipped_at = $1 where id = 4`, day(5))
	s.run(day(7))
	s.waits("8", day(9))
	// The second is of no rule. The database refuses to take such texts out of JSON.
	s.exec(`insert into prescient.event_dead (consumer, id, source, type, dead_at, data) values
		('desk', '1', 's', 't', now(), '{"rule": "order.unshipped", "step": "first", "payload": "\ud83d\ude00\ud83d \\udead \u0000"}'),
		('desk', '2', 's', 't', now(), '["\uDEAD"]')`)
	store, err := rulestore.New(t.Context(), s.db, rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := store.Summary(t.Context(), "order.unshipped", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := rulestore.Summary{
		Waiting: 1, NextSlot: new(day(9)), Since: time.Unix(0, 0).UTC(),
		Ended: rulestore.Ended{Met: 2, MetLate: 1, Open: 1, LeftOut: 3},
	}
	diff(t, want, got)
	fired, err := store.Fired(t.Context(), "order.unshipped")
	if err != nil {
		t.Fatal(err)
	}
	counts, dead := map[string]int64{}, map[string]int64{}
	for _, f := range fired {
		counts[f.Step], dead[f.Step] = f.Fired, f.DeadLetters
	}
	diff(t, map[string]int64{"first": 2, "final": 1}, counts)
	diff(t, map[string]int64{"first": 1, "final": 0}, dead)
}

func TestTheSummaryOfARuleTellsWhetherItEstimatesTheRowsThatWait(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped())
	store, err := rulestore.New(t.Context(), s.db, rulestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []jobs.Request
	for id := range 1001 {
		rows = append(rows, jobs.Request{JobExec: "order.unshipped", EntityName: "order", EntityKey: fmt.Sprint(id), CheckAt: day(4)})
	}
	for _, test := range []struct {
		rows      []jobs.Request
		estimated bool
	}{{rows[:1000], false}, {rows[1000:], true}} {
		if _, err := s.client.EnqueueMany(t.Context(), jobs.OwnTx(s.db), test.rows); err != nil {
			t.Fatal(err)
		}
		if sum, err := store.Summary(t.Context(), "order.unshipped", day0); err != nil || sum.Waiting < 1000 || sum.Estimated != test.estimated {
			t.Errorf("%+v, %v", sum, err)
		}
	}
}

// Such as by alter table or vacuum full. The rules of other tables go on.
func TestTheChecksOfALockedTableWaitForTheNextSlot(t *testing.T) {
	t.Parallel()
	s := newLateOrder(t)
	s.pool.SetMaxOpenConns(1)
	s.exec(`create table shop.parcels (like shop.orders including all); insert into shop.parcels (id, placed_at) values (1, '` + day0.Format(time.RFC3339) + `')`)
	s.apply(unshipped(func(a *rule.Applied) {
		a.Rule.Name, a.Rule.Table, a.Relation, a.Rule.Entity = "parcel.unshipped", "shop.parcels", "shop.parcels", "parcel"
		a.Rule.Steps[0].Event = "parcel.unshipped"
	}))
	job := jobs.Request{JobExec: "parcel.unshipped", EntityName: "parcel", EntityKey: "1", CheckAt: day(4)}
	if _, err := s.client.Enqueue(t.Context(), jobs.OwnTx(s.db), job); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("lock table shop.orders in access exclusive mode")
	s.run(day(4))
	diff(t, []string{"parcel.unshipped parcel/1"}, s.published())
	next := grid.Default.Next(day(4))
	s.wants(map[string]string{"1": fmt.Sprintf("day %.4g", next.Sub(day0).Hours()/24)})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.publish(s.publisher) // another process
	s.run(next)
	s.wants(map[string]string{"1": "day 7"})
}
