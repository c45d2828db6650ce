package rulestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/eventtest"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// rows inserts an order for each day from the first to the last of March, whose ids are the days.
func (s *shop) rows(first, last int) {
	s.t.Helper()
	s.exec("insert into shop.orders (id, placed_at) select n, "+at("01 09:00")+" + n * interval '24 hours' - interval '24 hours' from generate_series($1::int, $2) as n", first, last)
}

// with returns a file whose first rule has a further field.
func with(file, field string) string {
	return strings.Replace(file, "    steps:", "    "+field+"\n    steps:", 1)
}

func TestApplyLetsTheRowsThatAreThereWait(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		// At noon of the 4th both steps of row 0 have passed, and the first of row 1 and 2.
		"fire":     "0 at 03-04 12:15 came 03-04 12:00, 1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-05 09:00, 4 at 03-06 09:00",
		"last":     "0 at 03-04 12:15 came 03-04 12:00, 1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-05 09:00, 4 at 03-06 09:00",
		"skip":     "1 at 03-05 09:00 from 03-04 12:00, 2 at 03-06 09:00 from 03-04 12:00, 3 at 03-05 09:00, 4 at 03-06 09:00",
		"spread 1": "0 at 03-04 12:15 came 03-04 12:00, 1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-05 09:00, 4 at 03-06 09:00",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.rows(0, 4)
			s.exec(`insert into shop.orders (id, channel, placed_at, shipped_at) values
				(10, 'test', ` + at("04 09:00") + `, null), (11, 'web', null, null), (12, 'web', ` + at("04 09:00") + `, ` + at("04 11:51") + `)`)
			file := with(unshipped, "overdue: "+policy)
			plan := s.plan(file)
			s.wants("after the plan", "")
			if diff := cmp.Diff(plan, s.apply(file), cmpopts.IgnoreUnexported(rulestore.RulePlan{}), cmpopts.IgnoreFields(rulestore.SlotCount{}, "Waiting"), cmpopts.IgnoreFields(rulestore.RulePlan{}, "Forecast")); diff != "" {
				t.Errorf("the plan differs from what was done:\n%s", diff)
			}
			s.wants("after the apply", want)
			if p := plan.Rules[0]; p.Overdue != 3 || p.Counting != 5 || int(p.Begin) != strings.Count(want, " at ") {
				t.Errorf("planned %+v", p)
			}
			if got := slotsOf(plan.Rules[0]); got != s.slots() {
				t.Errorf("planned slots %s, and there are %s", got, s.slots())
			}
			if again := s.apply(file); again.Changes() {
				t.Errorf("a second apply changes something: %+v", again)
			}
			s.wants("after another apply", want)
			s.store = s.store.Again()
			if again := s.apply(file); again.Changes() {
				t.Errorf("a second look at the rows changes something: %+v", again)
			}
			s.wants("after another look", want)
		})
	}
}

// A step that is due at the first instant to come has not passed. That instant is the one of the apply if a slot begins
// with it, and else the first one after the beginning of the slot.
func TestAnApplyLeavesOutNoStepOfTheFirstInstantToCome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		now   time.Time
		first string
	}{
		"as a slot begins":   {noon, "02 12:00"},
		"in a slot":          {noon.Add(time.Minute), "02 12:00:00.000001"},
		"as the next begins": {noon.Add(15 * time.Minute), "02 12:15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, test.now)
			s.exec("insert into shop.orders (id, placed_at) values (1, " + at(test.first) + " - interval '1 microsecond'), (2, " + at(test.first) + ")")
			if got := strings.Join(s.plan(with(unshipped, "overdue: last")).Rules[0].Warnings, "\n"); got != "" {
				t.Errorf("warnings of last: %s", got)
			}
			if got := strings.Join(s.plan(with(unshipped, "overdue: skip")).Rules[0].Warnings, "\n"); !strings.Contains(got, "overdue: skip leaves out the steps that have passed of 1 row:") {
				t.Errorf("warnings of skip: %q", got)
			}
			plan := s.apply(with(unshipped, "overdue: skip"))
			if p := plan.Rules[0]; p.Overdue != 1 || p.Begin != 2 {
				t.Errorf("applied %+v", p)
			}
			if n := s.count("select count(*) from prescient.future_job where entity_key = '1' and next_check_at > " + at("06 00:00") + " and payload ->> 'from' is not null"); n != 1 {
				t.Errorf("the row whose first step has passed waits: %s", s.waiting())
			}
			if n := s.count("select count(*) from prescient.future_job where entity_key = '2' and next_check_at < " + at("04 13:00") + " and payload ->> 'from' is null and payload ->> 'came' is null"); n != 1 {
				t.Errorf("the row whose first step is to come waits: %s", s.waiting())
			}
		})
	}
}

// slots counts the checks that wait by slot.
func (s *shop) slots() string {
	s.t.Helper()
	var list []string
	err := s.db.SelectContext(s.t.Context(), &list, `
		select to_char(next_check_at at time zone 'UTC', 'MM-DD HH24:MI') || ' ' || count(*) from prescient.future_job group by next_check_at order by next_check_at`)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

func slotsOf(p rulestore.RulePlan) string {
	var list []string
	for _, c := range p.Slots {
		list = append(list, fmt.Sprintf("%s %d", c.Slot.Format("01-02 15:04"), c.Rows))
	}
	return strings.Join(list, ", ")
}

// beforeTheRule makes the name of the rule known as that of a job, or not.
var beforeTheRule = map[string]string{
	"a new name":   "select",
	"a known name": "select prescient.ensure_job('order.unshipped')",
}

// From this row an enqueue in an older snapshot finds out that there is a rule.
func TestAnApplyOfANewRuleWritesTheRowOfItsJob(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a snapshot of the coordinator does not hold for what is on a worker")
	for name, before := range beforeTheRule {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(before)
			older := s.before()
			s.apply(unshipped)
			_, err := older.Exec("insert into prescient.job (job, name) select prescient.job_number(n), n from (values ('order.unshipped')) as o (n) on conflict do nothing")
			if !pg.HasState(err, pqerror.TRSerializationFailure) {
				t.Errorf("an older transaction takes the row for the one that it sees: %v", err)
			}
		})
	}
}

// The older transaction sees neither the rule nor the row of its job, but the triggers work in it.
func TestATransactionOfBeforeANewRuleWritesToItsTable(t *testing.T) {
	t.Parallel()
	for name, before := range beforeTheRule {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(before)
			tx := s.before()
			s.apply(unshipped)
			for _, write := range []string{
				"insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")",
				"insert into shop.orders (id, placed_at) select i, " + at("04 11:50") + " from generate_series(2, 5) as i",
				"update shop.orders set placed_at = " + at("05 11:50") + " where id = 2",
				"update shop.orders set id = 6 where id = 3",
				"update shop.orders set shipped_at = placed_at where id = 4",
				"delete from shop.orders where id = 5",
			} {
				if _, err := tx.Exec(write); err != nil {
					t.Fatalf("%s: %v", write, err)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			s.wants("of before the rule", "1 at 03-06 12:00, 2 at 03-06 12:00, 4 at 03-06 12:00, 6 at 03-06 12:00")
		})
	}
}

func TestAPlanTellsWhatWaitsInItsSlotsAlready(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(3, 4)
	s.exec("select prescient.enqueue('other', 'order', n::text, check_at => " + at("05 09:00") + ") from generate_series(1, 7) as n")
	file := with(unshipped, "overdue: fire")
	var got []string
	for _, c := range s.plan(file).Rules[0].Slots {
		got = append(got, fmt.Sprintf("%s: %d and %d", c.Slot.Format("01-02 15:04"), c.Rows, *c.Waiting))
	}
	if want := "03-05 09:00: 1 and 7, 03-06 09:00: 1 and 0"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestApplyRefusesRowsThatAreOverdueWithoutAPolicy(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(0, 4)
	if p := s.plan(unshipped).Rules[0]; !p.Refused || p.Overdue != 3 {
		t.Errorf("planned %+v", p)
	}
	_, err := s.store.Apply(t.Context(), parse(t, unshipped), nil)
	overdue, ok := errors.AsType[*rulestore.OverdueError](err)
	if !ok || overdue.Rows != 3 || overdue.Line != 3 {
		t.Errorf("error %v", err)
	}
	if n := s.count("select (select count(*) from prescient.rule) + (select count(*) from pg_trigger where tgname like 'prescient%')"); n != 0 {
		t.Error("something was changed")
	}
}

func TestPlacesOfASpreadAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("01 09:00") + " from generate_series(1, 400) as n")
	file := with(unshipped, "overdue: spread 8")
	plan := s.apply(file).Rules[0]
	if got := slotsOf(plan); got != s.slots() || len(plan.Slots) != 8 {
		t.Errorf("planned slots %s, and there are %s", got, s.slots())
	}
}

func TestAPlanNamesTheOptionsThatChange(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "overdue: fire"))
	changed := strings.Replace(with(unshipped, "payload: [amount]"), "<> 'test'", "<> 'shop'", 1)
	want := []rulestore.OptionPlan{
		{Name: "overdue", Was: "fire"},
		{Name: "payload", Is: `["amount"]`},
		{Name: "where", Was: "channel <> 'test'", Is: "channel <> 'shop'"},
	}
	if diff := cmp.Diff(want, s.plan(changed).Rules[0].Options); diff != "" {
		t.Error(diff)
	}
}

func TestAChangedRuleReTimesWhatWaitsAndKeepsWhatHasFired(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(1, 6)
	file := with(unshipped, "overdue: fire")
	s.apply(file)
	s.wants("at first", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-05 09:00, 4 at 03-06 09:00, 5 at 03-07 09:00, 6 at 03-08 09:00")
	// The check of row 1 has fired the first step, and waits for the second. Row 2 has fired both, and has ended.
	s.fires("1", "order.unshipped.primary")
	s.fires("2", "order.unshipped.primary")
	s.fires("2", "order.unshipped.final")
	s.exec("update prescient.future_job set next_check_at = " + at("05 09:00") + " where entity_key = '1'; delete from prescient.future_job where entity_key = '2'")
	changed := strings.Replace(strings.Replace(file, "after: 2d", "after: 1d", 1), "after: 4d", "after: 5d", 1)
	plan := s.plan(changed).Rules[0]
	want := []rulestore.StepPlan{{Name: "order.unshipped.primary", Was: "2d", Is: "1d"}, {Name: "order.unshipped.final", Was: "4d", Is: "5d"}}
	for i := range want { // however a delay is written
		want[i].Was, want[i].Is = plan.Steps[i].Was, plan.Steps[i].Is
	}
	if diff := cmp.Diff(want, plan.Steps); diff != "" || plan.Action != rulestore.Change || plan.Retimed != 5 {
		t.Errorf("planned %+v\n%s", plan, diff)
	}
	s.apply(changed)
	s.wants("after the change", "1 at 03-06 09:00 came 03-04 12:00, 3 at 03-04 12:15 came 03-04 12:00, 4 at 03-05 09:00, 5 at 03-06 09:00, 6 at 03-07 09:00")
	if p := s.plan(changed); p.Changes() {
		t.Errorf("something is left to do: %+v", p.Rules[0])
	}
	if status, err := s.store.Get(t.Context(), "order.unshipped"); err != nil || status.Version != 2 || status.State != rulestore.Active || status.AppliedAt.IsZero() {
		t.Errorf("%+v, %v", status, err)
	}
}

// A step has fired, and the rule gets a longer delay. A heartbeat before that leaves the row to its check, so it has one.
func TestARowWhoseStepFiresLaterNowStillHasACheck(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("01 12:00") + ")")
	file := func(after string) string {
		return "rules: [{name: order.unshipped, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: fire, steps: [{after: " + after + ", event: late}]}]"
	}
	s.apply(file("2d"))
	s.fires("1", "late")
	s.exec("delete from prescient.future_job")
	s.apply(file("7d"))
	s.wants("applied", "1 at 03-08 12:00")
	s.exec("update shop.orders set placed_at = " + at("04 12:00"))
	if got := strings.Join(s.replays(noon.AddDate(0, 0, 20)), ", "); got != "1 at 03-11 12:00" {
		t.Errorf("fires %q", got)
	}
}

func TestAStepThatIsAddedConcernsRowsThatHaveEnded(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(1, 1)
	file := with(unshipped, "overdue: fire")
	s.apply(file)
	s.exec(`insert into prescient.rule_fired (job, entity_key, since, step)
		select job, entity_key, ` + at("01 09:00") + `, step from prescient.future_job, unnest('{order.unshipped.primary,order.unshipped.final}'::text[]) as step;
		delete from prescient.future_job`)
	s.apply(file + "      - {after: 10d, event: order.lost}\n")
	s.wants("after the change", "1 at 03-11 09:00")
}

func TestRowsThatTriggersHaveMissedAreFoundByASecondLook(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(3, 5)
	s.apply(unshipped)
	s.exec("alter table shop.orders disable trigger user; insert into shop.orders (id, placed_at) values (6, " + at("04 10:00") + "); alter table shop.orders enable trigger user")
	s.exec("select prescient.cancel('order.unshipped', 'orders', '3')")
	if p := s.plan(unshipped); p.Changes() {
		t.Errorf("planned %+v", p)
	}
	s.store = s.store.Again()
	if p := s.plan(unshipped); !p.Changes() || p.Rules[0].Action != rulestore.Again || p.Rules[0].Begin != 2 || p.Rules[0].Waiting != 2 {
		t.Errorf("planned %+v", p)
	}
	s.wants("after the plan", "4 at 03-06 09:00, 5 at 03-07 09:00")
	s.apply(unshipped)
	s.wants("after the apply", "3 at 03-05 09:00, 4 at 03-06 09:00, 5 at 03-07 09:00, 6 at 03-06 10:00")
	if p := s.plan(unshipped); p.Changes() {
		t.Errorf("something is left to do: %+v", p)
	}
}

// A trigger cannot see a setting in another table. A check that is due finds a longer one by itself, but not a shorter.
func TestASettingThatBecomesShorterReachesTheRowsThatWaitByASecondLook(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.setting (channel text primary key, hold interval); insert into shop.setting values ('web', '5 days'), ('app', '5 days');
		insert into shop.orders (id, channel, placed_at) values (1, 'web', ` + at("04 11:00") + `), (2, 'app', ` + at("04 11:00") + `)`)
	file := `
rules:
  - name: order.held
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    overdue: skip
    steps:
      - after: {interval: (select t.hold from shop.setting t where t.channel = orders.channel), at-least: 30m}
        event: a
`
	s.apply(file)
	s.wants("after the apply", "1 at 03-09 11:00, 2 at 03-09 11:00")
	s.exec("update shop.setting set hold = '1 day' where channel = 'web'")
	s.wants("no trigger sees it", "1 at 03-09 11:00, 2 at 03-09 11:00")
	if p := s.plan(file).Rules[0]; p.Action != rulestore.Unchanged || p.Retimed != 0 {
		t.Errorf("planned %+v", p)
	}
	again := s.store.Again()
	plan, err := again.Plan(t.Context(), parse(t, file), nil)
	if err != nil || plan.Rules[0].Action != rulestore.Again || plan.Rules[0].Retimed != 1 {
		t.Errorf("planned again %+v, %v", plan.Rules, err)
	}
	if _, err := again.Apply(t.Context(), parse(t, file), nil); err != nil {
		t.Fatal(err)
	}
	s.wants("after the second look", "1 at 03-05 11:00, 2 at 03-09 11:00")
	s.exec("update shop.setting set hold = '10 days' where channel = 'app'")
	if _, err := again.Apply(t.Context(), parse(t, file), nil); err != nil {
		t.Fatal(err)
	}
	s.wants("the check finds a longer one out", "1 at 03-05 11:00, 2 at 03-09 11:00")
}

func TestARowThatIsThereWaitsForTheDelayThatItsDataHold(t *testing.T) {
	t.Parallel()
	const lookup = "(select t.hold from shop.setting t where t.channel = orders.channel)"
	for steps, want := range map[string]string{
		"[{after: {interval: \"" + lookup + "\"}, event: a}]":                               "1 at 03-07 09:00, 2 at 03-12 09:00",
		"[{after: {interval: \"" + lookup + "\"}, event: a}, {after: 0s, event: b}]":        "1 at 03-07 09:00, 2 at 03-10 09:00, 3 at 03-10 09:00 came 03-04 12:00",
		"[{before: 1d, event: a}, {after: {interval: \"" + lookup + "\"}, event: b}]":       "1 at 03-07 09:00, 2 at 03-09 09:00, 3 at 03-09 09:00 came 03-04 12:00",
		"[{after: {interval: \"case when id = 1 then interval '-3 days' end\"}, event: a}]": "1 at 03-07 09:00",
		"[{after: {interval: \"" + lookup + "\", at-least: 1h}, every: 1d, event: a}]":      "1 at 03-07 09:00, 2 at 03-12 09:00",
		"[{after: 0s, every: {interval: \"" + lookup + "\"}, times: {count: id - 1}, event: a}, {after: 1d, event: b}]": "" +
			"1 at 03-11 09:00 came 03-04 12:00, 2 at 03-10 09:00, 3 at 03-10 09:00",
	} {
		t.Run(steps, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`create table shop.setting (channel text primary key, hold interval);
				insert into shop.setting values ('web', '-3 days'), ('app', '2 days');
				insert into shop.orders (id, channel, placed_at) select id, channel, ` + at("10 09:00") + `
				from (values (1, 'web'), (2, 'app'), (3, 'none')) as o(id, channel)`)
			file := "rules:\n  - {name: order.held, table: shop.orders, key: id, since: placed_at, done: shipped_at, steps: " +
				steps + "}\n"
			plan := s.plan(file)
			s.apply(file)
			s.wants("after the apply", want)
			if got := slotsOf(plan.Rules[0]); got != s.slots() {
				t.Errorf("planned slots %s, and there are %s", got, s.slots())
			}
			s.store = s.store.Again()
			if again := s.apply(file); again.Changes() {
				t.Errorf("a second look at the rows changes something: %+v", again)
			}
		})
	}
}

func TestADelayOfARowMayStandForNever(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`alter table shop.orders add hold interval;
		insert into shop.orders (id, placed_at, hold) values (1, ` + at("04 11:00") + `, '1 day'), (2, ` + at("04 11:00") + `, '100 years'),
			(3, ` + at("04 11:00") + `, make_interval(mins => 2147483647)), (4, ` + at("04 11:00") + `, - make_interval(mins => 2147483647))`)
	s.apply("rules:\n  - {name: order.held, table: shop.orders, key: id, since: placed_at, done: shipped_at, " +
		"steps: [{after: {interval: hold}, event: a}]}\n")
	s.wants("after the apply", "1 at 03-05 11:00, 2 at 03-04 11:00") // of the year 2130
}

func TestAPlanCountsTheRowsWhoseClockAnotherTableMayStart(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.payment (order_id bigint primary key, paid_at timestamptz);
		insert into shop.payment values (1, ` + at("04 11:00") + `), (2, null);
		insert into shop.orders (id) values (1), (2), (3)`)
	const lookup = "since: (select p.paid_at from shop.payment p where p.order_id = orders.id)"
	for since, want := range map[string]struct {
		unstarted int64
		rechecks  bool // the rows are looked at again and again
	}{
		lookup:             {2, true},
		"since: placed_at": {0, true},
		lookup + "\n    also: {table: shop.payment, key: order_id}":                  {2, false},
		lookup + "\n    recheck: 1h\n    also: {table: shop.payment, key: order_id}": {2, true},
	} {
		p := s.plan(strings.Replace(unshipped, "since: placed_at", since, 1)).Rules[0]
		if p.Unstarted != want.unstarted || p.Rechecks() != want.rechecks {
			t.Errorf("%s: planned %+v", since, p)
		}
	}
}

// Without recheck, rows end that no step is left for, and those without an instant wait for nothing.
func TestRowsAreLookedAtAsOftenAsAChangedRecheckSays(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.payment (order_id bigint primary key, paid_at timestamptz); create table shop.visit (order_id bigint);
		insert into shop.orders (id, placed_at) values (1, null), (2, timestamptz '2030-02-20 12:00+00'), (3, ` + at("04 11:00") + `);
		insert into shop.payment select id, placed_at from shop.orders`)
	file := strings.Replace(with(with(unshipped, "overdue: fire"), "also: {table: shop.payment, key: order_id}"), "since: placed_at", `since:
      - (select p.paid_at from shop.payment p where p.order_id = orders.id)
      - (select p.paid_at from shop.visit v join shop.payment p using (order_id) where v.order_id = orders.id)`, 1)
	s.apply(file)
	s.fires("2", "order.unshipped.primary")
	s.fires("2", "order.unshipped.final")
	s.exec("delete from prescient.future_job where entity_key = '2'")
	s.wants("without recheck", "3 at 03-06 11:00 came 03-04 12:00")

	changes := func(recheck string, begin, retimed int64) {
		t.Helper()
		changed := with(file, "recheck: "+recheck)
		planned := s.plan(changed).Rules[0]
		applied := s.apply(changed).Rules[0]
		for _, p := range []rulestore.RulePlan{planned, applied} {
			if p.Action != rulestore.Change || p.Begin != begin || p.Retimed != retimed {
				t.Errorf("recheck: %s: %s, %d rows begin and %d move", recheck, p.Action, p.Begin, p.Retimed)
			}
		}
		if slotsOf(planned) != slotsOf(applied) {
			t.Errorf("recheck: %s: planned slots %s, applied %s", recheck, slotsOf(planned), slotsOf(applied))
		}
	}
	changes("10h", 2, 0)
	s.wants("with one", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-06 11:00 came 03-04 12:00")
	s.exec("update prescient.future_job set next_check_at = " + at("04 22:00") + " where entity_key in ('1', '2')") // checked
	changes("12h", 0, 0)
	changes("1h", 0, 2)
	s.wants("with a shorter one", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00, 3 at 03-06 11:00 came 03-04 12:00")
	changes("30m", 0, 0)
}

// Another table may say that a row is done for which all steps have fired, and something follows.
func TestRowsWhoseStepsHaveFiredAreWatchedAsAChangedRecheckSays(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.payment (order_id bigint primary key); create table shop.visit (order_id bigint primary key);
		insert into shop.orders (id, placed_at) select i, timestamptz '2030-02-20 12:00+00' from generate_series(1, 4) as i`)
	file := strings.NewReplacer("done: shipped_at", `done: exists (select from shop.payment p join shop.visit v using (order_id) where p.order_id = orders.id)`,
		"    steps:", "    overdue: skip\n    also: {table: shop.payment, key: order_id}\n    recovered: {event: over}\n    steps:").Replace(unshipped)
	s.apply(file)
	s.exec("update prescient.rule set recovers_at = now()")
	for _, id := range []string{"1", "2", "3"} {
		s.fires(id, "order.unshipped.primary")
		s.fires(id, "order.unshipped.final")
	}
	s.fires("2", "recovered")
	s.exec("update prescient.rule_fired set fired_at = '2000-01-01' where entity_key = '3'") // the rule had no recovered
	s.wants("without recheck", "")
	s.apply(with(file, "recheck: 10h"))
	s.wants("with one", "1 at 03-04 12:15")
	s.exec("update prescient.future_job set next_check_at = " + at("04 22:00")) // checked
	if p := s.apply(with(file, "recheck: 12h")).Rules[0]; p.Retimed != 0 {
		t.Errorf("a longer recheck moves %d rows", p.Retimed)
	}
	s.apply(with(file, "recheck: 1h"))
	s.wants("with a shorter one", "1 at 03-04 12:15")
}

func TestAChangeOfWhatFiresLooksAtNoRow(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(1, 4)
	file := with(unshipped, "overdue: fire")
	s.apply(file)
	s.exec("delete from prescient.future_job")
	plan := s.apply(with(file, "payload: [amount]")).Rules[0]
	if plan.Action != rulestore.Change || plan.Begin+plan.Retimed+plan.Overdue != 0 || len(plan.Triggers) > 0 {
		t.Errorf("planned %+v", plan)
	}
	s.wants("after the change", "")
	for _, fields := range []string{"cancel: at-once", "recovered: {event: order.shipped}"} { // the triggers are others
		plan = s.apply(with(file, fields)).Rules[0]
		if plan.Action != rulestore.Change || plan.Begin+plan.Retimed+plan.Overdue != 0 || len(plan.Triggers) == 0 {
			t.Errorf("%s: planned %+v", fields, plan)
		}
		s.wants(fields, "")
	}
}

// died is the error of a context that a test ends in the middle of an apply.
var errDied = errors.New("died")

func TestAnApplyThatDiesIsResumed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 09:00") + " from generate_series(1, 950) as n")
	ctx, die := context.WithCancelCause(t.Context())
	pages := 0
	_, err := s.store.Apply(ctx, parse(t, unshipped), func(rulestore.Progress) {
		if pages++; pages == 3 {
			die(errDied)
		}
	})
	if err == nil || s.count("select count(*) from prescient.future_job") != 300 {
		t.Fatalf("error %v, %s", err, s.slots())
	}
	status, err := s.store.Get(t.Context(), "order.unshipped")
	if err != nil || status.State != rulestore.Applying || status.Position != "300" {
		t.Errorf("%+v, %v", status, err)
	}
	s.exec("insert into shop.orders (id, placed_at) values (951, " + at("04 09:00") + ")") // its triggers are there
	if plan := s.plan(unshipped).Rules[0]; plan.Action != rulestore.Resume || plan.Begin != 650 {
		t.Errorf("planned %+v", plan)
	}
	var seen int64
	if _, err := s.store.Apply(t.Context(), parse(t, unshipped), func(p rulestore.Progress) { seen = p.Rows }); err != nil {
		t.Fatal(err)
	}
	if seen != 651 || s.slots() != "03-06 09:00 951" {
		t.Errorf("%d rows were looked at, and %s wait", seen, s.slots())
	}
}

// While rules are applied, applications write to the table. In the end each row that counts waits,
// for the slot that follows from its values.
func TestApplyBesideWritesMissesNoRow(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a transaction does not end on all servers at once")
	s := newShop(t)
	s.exec("insert into shop.orders (id, placed_at) select n, now() - n % 20 * interval '1 hour' from generate_series(1, 3000) as n")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for writer := range 3 {
		wg.Go(func() { s.write(ctx, writer) })
	}
	s.apply(unshipped)
	s.apply(afterADay)
	stop()
	wg.Wait()
	s.everyRowThatCountsWaits()
}

// everyRowThatCountsWaits compares the checks with the orders, one day after each.
func (s *shop) everyRowThatCountsWaits() {
	s.t.Helper()
	const counting = `
		select id::text as key, prescient.slot_ceil(placed_at + interval '1 day', interval '15 minutes') as slot
		from shop.orders where channel <> 'test' and shipped_at is null and placed_at is not null`
	if n := s.count("select count(*) from (" + counting + ") as c"); n < 1000 {
		s.t.Errorf("only %d rows count", n)
	}
	if n := s.count("select count(*) from (" + counting + ") as c left join prescient.future_job f on f.entity_key = c.key where f.id is null"); n > 0 {
		s.t.Errorf("%d rows do not wait", n)
	}
	// A row whose clock has moved later waits as before, and its check finds out.
	if n := s.count("select count(*) from (" + counting + ") as c join prescient.future_job f on f.entity_key = c.key where f.next_check_at > c.slot"); n > 0 {
		s.t.Errorf("%d rows wait for a later slot", n)
	}
	// A row that was deleted while its page was applied may be left. Its check ends it.
	left := s.count(checks + "select count(*) from f where not exists (select from shop.orders o where o.id::text = f.entity_key)")
	s.t.Logf("%d rows count, %d wait without a row", s.count("select count(*) from ("+counting+") as c"), left)
	if left > 20 {
		s.t.Errorf("%d checks wait whose rows are gone", left)
	}
	var want []string
	if err := s.db.SelectContext(s.t.Context(), &want, "select key || ' at ' || to_char(slot at time zone 'UTC', 'MM-DD HH24:MI') from ("+counting+") as c order by 1"); err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.replays(s.clock().AddDate(0, 0, 2))); diff != "" {
		s.t.Errorf("what fires, and when (-want +got):\n%.2000s", diff)
	}
}

// replays runs the slots before an instant for which rows wait, and returns the keys of the events, each with its slot: "7 at
// 03-06 12:00".
func (s *shop) replays(until time.Time) (list []string) {
	s.t.Helper()
	var now time.Time
	publisher, registry := &eventtest.Recorder{}, jobs.NewRegistry()
	err := rule.Register(registry, rule.CheckConfig{
		DB: func(context.Context) (pgsql.Pool, error) { return s.db, nil }, Publisher: publisher, Source: "shop",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	runner, err := slots.NewRunner(s.t.Context(), slots.Config{
		DB: s.db, Registry: registry, Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for s.count("select count(*) from prescient.future_job where next_check_at < $1", until) > 0 {
		if err := s.db.GetContext(s.t.Context(), &now, "select min(next_check_at) from prescient.future_job"); err != nil {
			s.t.Fatal(err)
		}
		if _, err := runner.Run(s.t.Context(), now); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, e := range publisher.Events() {
		list = append(list, strings.TrimPrefix(e.Subject, "orders/")+" at "+e.PublishedAt.UTC().Format("01-02 15:04"))
	}
	slices.Sort(list)
	return list
}

// write inserts, updates and deletes orders, up to 2,000 times, until ctx ends.
func (s *shop) write(ctx context.Context, writer int) {
	random := rand.New(rand.NewPCG(1, uint64(writer))) //nolint:gosec // a test repeats
	first := 10_000_000 * (writer + 1)
	for n := first; n < first+2000 && ctx.Err() == nil; n++ {
		statement := [...]string{
			"insert into shop.orders (id, placed_at) values ($1 + 100000, now() - $2 % 20 * interval '1 hour')",
			"insert into shop.orders (id, placed_at) select 1000000000 + $1::bigint * 10 + k, now() - $2::int % 20 * interval '1 hour' from generate_series(0, 9) as k",
			"update shop.orders set placed_at = now() - $1::bigint % 20 * interval '1 hour' where id = $2",
			"update shop.orders set shipped_at = now() where id = $2 and $1::bigint > 0",
			"update shop.orders set note = $1::text where id = $2",
			"delete from shop.orders where id = $2 and $1::bigint > 0",
			"update shop.orders set id = -$1::bigint where id = $2", // behind the walk
		}[random.IntN(7)]
		err := pgsql.InTx(context.WithoutCancel(ctx), s.db, func(tx *sqlx.Tx) error {
			_, err := tx.Exec(statement, n, 1+random.IntN(3000))
			return err
		})
		if err != nil {
			s.t.Errorf("%s: %v", statement, err)
			return
		}
	}
}

func TestApplyGivesUpOnALockedTableAndNamesTheHolder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tx := s.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("set local application_name = 'report'; insert into shop.orders (id) values (1)")
	begun := time.Now()
	_, err := s.store.Apply(t.Context(), parse(t, unshipped), nil)
	locked, ok := errors.AsType[*rulestore.LockedError](err)
	if !ok || !strings.Contains(locked.Holder, "report") || !strings.Contains(locked.Mends, "pg_terminate_backend") {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if n := s.count("select count(*) from prescient.rule"); n != 0 {
		t.Error("the rule was written down")
	}
}

func TestAnApplyThatIsResumedWaitsForALockedTable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	s.exec("update prescient.rule set state = 'applying'; drop trigger " + s.insertTrigger() + " on shop.orders")
	tx := s.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec("insert into shop.orders (id) values (1)")
	var applied sync.WaitGroup
	applied.Go(func() {
		if plan := s.apply(unshipped).Rules[0]; plan.Action != rulestore.Resume {
			t.Errorf("applied %+v", plan)
		}
	})
	blocked := func() bool {
		return s.count("select count(*) from pg_locks where relation = 'shop.orders'::regclass and not granted") > 0
	}
	s.eventually("the apply to wait", blocked)
	s.eventually("the apply to let writers through", func() bool { return !blocked() })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	applied.Wait()
	s.insertTrigger()
}

func TestRemoveLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 09:00") + " from generate_series(1, 250) as n")
	s.apply(unshipped)
	s.exec("insert into prescient.rule_fired (job, entity_key, since, step) values (prescient.find_job('order.unshipped'), '1', now(), 'a'), (7, '1', now(), 'a')")
	s.exec("select prescient.enqueue('another', 'order', '1', check_at => now())")
	removed, err := s.store.Remove(t.Context(), "order.unshipped", nil)
	if err != nil || removed != (rulestore.Removed{Cancelled: 250, Forgotten: 1}) {
		t.Errorf("%+v, %v", removed, err)
	}
	if n := s.count(`select (select count(*) from prescient.rule) + (select count(*) from pg_trigger where tgname like 'prescient%')
		+ (select count(*) from pg_proc where proname like 'prescient\_%') + (select count(*) from prescient.rule_fired) + (select count(*) from prescient.future_job)`); n != 2 {
		t.Errorf("%d objects are left, want the entry and the check of others", n)
	}
	if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); !errors.Is(err, rulestore.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	s.apply(unshipped)
	if got := s.count("select count(*) from prescient.future_job"); got != 251 {
		t.Errorf("%d wait after another apply", got)
	}
}

func TestOfTwoRemovesAtTheSameTimeNeitherFails(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(4, 6)
	s.apply(unshipped)
	var other error
	removed, err := s.store.Remove(t.Context(), "order.unshipped", func(rulestore.Progress) {
		_, other = s.store.Remove(t.Context(), "order.unshipped", nil)
	})
	if err != nil || other != nil || removed.Cancelled != 3 {
		t.Errorf("%+v, %v; the other: %v", removed, err, other)
	}
	s.wants("after both", "")
}

func TestARemoveThatDiesIsResumed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(4, 6)
	s.apply(unshipped)
	ctx, die := context.WithCancelCause(t.Context())
	die(errDied)
	if _, err := s.store.Remove(ctx, "order.unshipped", nil); err == nil {
		t.Fatal("it did not die")
	}
	s.exec("update prescient.rule set state = 'removing'")
	if _, err := s.store.Plan(t.Context(), parse(t, unshipped), nil); err == nil || !strings.Contains(err.Error(), "is being removed") {
		t.Errorf("error %v", err)
	}
	if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil {
		t.Fatal(err)
	}
	s.wants("after the remove", "")
}

func TestARemoveThatCannotCancelACheckIsResumedWhenItCan(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(4, 6)
	s.apply(unshipped)
	holder := s.db.MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job where entity_key = '4' for update")
	removed, err := s.store.Remove(t.Context(), "order.unshipped", nil)
	if err == nil || !strings.Contains(err.Error(), "1 check is locked by another session") || removed.Cancelled != 2 {
		t.Errorf("%+v, error %v", removed, err)
	}
	if status, err := s.store.Get(t.Context(), "order.unshipped"); err != nil || status.State != rulestore.Removing {
		t.Errorf("%+v, error %v", status.State, err)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil || removed.Cancelled != 1 {
		t.Errorf("%+v, error %v", removed, err)
	}
	s.wants("after the remove", "")
}

// The check of a step that is due waits for the next slot if the run before it was late.
func TestOverdueSkipsNoStepOfARowThatWaitsForTheNextSlot(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(last string) string {
		return "rules: [{name: order.late, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: skip, " +
			"steps: [{after: 1h, event: a}, {after: 2h, event: b}, {after: " + last + ", event: c}]}]"
	}
	s.apply(late("3h"))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.exec("insert into prescient.rule_fired (job, entity_key, since, step) select job, '1', " + at("04 12:00") + ", 'a' from prescient.future_job")
	s.exec("update prescient.future_job set next_check_at = " + at("04 14:15"))
	s.now = noon.Add(2*time.Hour + time.Minute) // a run of 13:45 has recorded the row at 14:00:01
	s.apply(late("4h"))
	s.wants("applied", "1 at 03-04 14:15")
}

func TestOverdueDecidesAboutAnAddedStepOfARowThatWaitsForTheNextSlot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ overdue, want string }{
		{"skip", "1 at 03-04 12:15 from 03-04 12:00"},
		{"last", "1 at 03-04 12:15 came 03-04 12:00"},
		{"fire", "1 at 03-04 12:15"},
	} {
		t.Run(test.overdue, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			late := func(more string) string {
				return "rules: [{name: order.late, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: " + test.overdue + ", " +
					"steps: [" + more + "{after: 1h, event: c}]}]"
			}
			s.apply(late(""))
			s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:10") + ")")
			s.apply(late("{after: 20m, event: a}, {after: 30m, event: b}, "))
			s.wants("applied", test.want)
		})
	}
}

// An apply that goes on after one that has died knows which steps that one has changed.
func TestOverdueDecidesAboutAnAddedStepAlsoIfTheApplyDies(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(more string) string {
		return "rules: [{name: order.late, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: skip, " +
			"steps: [" + more + "{after: 1h, event: c}]}]"
	}
	s.apply(late(""))
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 11:10") + " from generate_series(1, 250) as n")
	ctx, die := context.WithCancelCause(t.Context())
	added := late("{after: 20m, event: a}, ")
	_, err := s.store.Apply(ctx, parse(t, added), func(rulestore.Progress) { die(errDied) })
	if err == nil {
		t.Fatal("it did not die")
	}
	s.apply(added)
	if n := s.count("select count(*) from prescient.future_job where payload ->> 'left_out' = '[\"a\"]'"); n != 250 {
		t.Errorf("step a was left out for %d rows of 250", n)
	}
}

// The row goes on telling which steps an earlier apply has left out.
func TestAnApplyAddsToWhatAnEarlierOneHasLeftOut(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(more string) string {
		return "rules: [{name: order.late, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: skip, " +
			"steps: [{after: 1h, event: a}, " + more + "{after: 1d, event: z}]}]"
	}
	leftOut := func(want int) {
		t.Helper()
		if n := s.count(`select count(*) from prescient.future_job f, jsonb_array_elements_text(f.payload -> 'left_out') as l where l in ('a', 'b')`); n != want {
			t.Errorf("%d steps are left out, want %d: %s", n, want, s.waiting())
		}
	}
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 10:00") + ")")
	s.apply(late(""))
	leftOut(1)
	s.now = noon.Add(3 * time.Hour)
	s.apply(late("{after: 4h, event: b}, "))
	leftOut(2)
	s.wants("applied", "1 at 03-05 10:00 from 03-04 15:00")
}

// What an apply leaves out is about the start of the clock that it found, not about one before.
func TestAnApplyThatMovesTheClockLeavesOutStepsOfTheNewStart(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(since string) string {
		return "rules: [{name: order.late, table: shop.orders, key: id, since: " + since + ", done: shipped_at, overdue: skip, " +
			"steps: [{after: 1h, event: a}, {after: 1d, event: b}]}]"
	}
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 10:00") + ")")
	for _, test := range []struct{ since, want string }{
		{"placed_at", `03-04 10:00 ["a"]`},
		{"placed_at - interval '10 minutes'", `03-04 09:50 ["a"]`},
	} {
		s.apply(late(test.since))
		var of string
		if err := s.db.GetContext(t.Context(), &of, `
			select to_char((f.payload ->> 'since')::timestamptz at time zone 'UTC', 'MM-DD HH24:MI') || ' ' || (f.payload ->> 'left_out')
			from prescient.future_job f`); err != nil {
			t.Fatal(err)
		}
		if of != test.want {
			t.Errorf("left out %s, want %s", of, test.want)
		}
	}
}

func TestAnAddedStepThatCameBeforeOneThatHasFiredDoesNotFire(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(more string) string {
		return "rules: [{name: order.unshipped, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: fire, " +
			"steps: [" + more + "{after: 2h, event: b}, {after: 1d, event: c}]}]"
	}
	s.apply(late(""))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:10") + ")")
	s.fires("1", "b")
	s.exec("update prescient.future_job set next_check_at = " + at("05 11:15"))
	s.now = noon.Add(2 * time.Hour)
	s.apply(late("{after: 1h, event: a}, "))
	s.wants("applied", "1 at 03-05 11:15 from 03-04 13:10")
}

func TestAnAddedStepThatCameBeforeOneThatHasFiredDoesNotFireBesideOneThatHasPassed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(more string) string {
		return "rules: [{name: order.unshipped, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: skip, " +
			"steps: [" + more + "{after: 2h, event: b}, {after: 3h, event: c}]}]"
	}
	s.apply(late(""))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 10:50") + ")")
	s.fires("1", "b")
	s.exec("update prescient.future_job set next_check_at = " + at("04 14:15")) // the run of 14:00 was late
	s.now = noon.Add(2*time.Hour + 12*time.Minute)
	s.apply(late("{after: 1h, event: a}, "))
	s.wants("applied", "1 at 03-04 14:15")
}

func TestAStepThatNowComesBeforeOneThatHasFiredDoesNotFireInARowWithoutAStepToCome(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	late := func(after string) string {
		return "rules: [{name: order.unshipped, table: shop.orders, key: id, since: placed_at, done: shipped_at, overdue: fire, " +
			"steps: [{after: " + after + ", event: a}, {after: 2h, event: b}]}]"
	}
	s.apply(late("1 month"))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:10") + ")")
	s.fires("1", "b")
	s.exec("update prescient.future_job set next_check_at = '2030-04-04 11:15Z'")
	s.now = noon.Add(2 * time.Hour)
	s.apply(late("1h"))
	s.wants("applied", "1 at 04-04 11:15 from 03-04 13:10")
	if p := s.plan(late("1h")); p.Changes() {
		t.Errorf("applied again: %+v", p)
	}
}

func TestARemoveFindsTheTriggersOfATableThatWasRenamed(t *testing.T) {
	t.Parallel()
	for name, rename := range map[string]string{
		"a table":               "alter table shop.orders rename to old_orders",
		"a schema":              "alter schema shop rename to shop2",
		"a table in new schema": pgtest.CreateSchema("other") + "; alter table shop.orders set schema other",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.apply(unshipped)
			s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
			s.exec(rename)
			if removed, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil || removed.Cancelled != 1 {
				t.Errorf("%+v, %v", removed, err)
			}
			if n := s.count("select (select count(*) from pg_trigger where tgname like 'prescient%') + (select count(*) from pg_proc where proname like 'prescient_order%')"); n != 0 {
				t.Errorf("%d triggers and functions are left", n)
			}
		})
	}
}

func TestARuleFollowsItsTableToAnotherName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ rename, table string }{
		"a table":               {"alter table shop.orders rename to old_orders", "shop.old_orders"},
		"a schema":              {"alter schema shop rename to shop2", "shop2.orders"},
		"a table in new schema": {pgtest.CreateSchema("other") + "; alter table shop.orders set schema other", "other.orders"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.apply(unshipped)
			s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
			s.exec(test.rename)
			file := strings.ReplaceAll(unshipped, "shop.orders", test.table)
			if test.table == "shop.old_orders" { // the name of the table was that of the entity
				if _, err := s.store.Plan(t.Context(), parse(t, file), nil); err == nil || !strings.Contains(err.Error(), "write entity: orders") {
					t.Errorf("error %v", err)
				}
				file = with(file, "entity: orders")
			}
			if p := s.plan(file).Rules[0]; p.Action != rulestore.Change || p.Begin+p.Retimed > 0 {
				t.Errorf("%+v", p)
			}
			s.apply(file)
			s.exec("insert into " + test.table + " (id, placed_at) values (2, " + at("04 11:50") + ")")
			s.wants("before and after", "1 at 03-06 12:00, 2 at 03-06 12:00")
			if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) > 0 {
				t.Errorf("%+v, %v", faults, err)
			}
			if p := s.plan(file); p.Changes() {
				t.Errorf("applied again: %+v", p)
			}
			if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil {
				t.Fatal(err)
			}
			if n := s.count("select count(*) from pg_proc where proname like 'prescient_order%'"); n != 0 {
				t.Errorf("%d functions are left", n)
			}
		})
	}
}

func TestARuleFollowsItsKeyToAnotherName(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 11:50") + ")")
	s.exec(`alter table shop.orders rename id to number; alter table shop.orders add column id bigint unique;
		update shop.orders set id = 10; alter table shop.orders alter column id set not null`)
	file := strings.Replace(unshipped, "key: id", "key: number", 1)
	if p := s.plan(file).Rules[0]; p.Action != rulestore.Change || p.Begin+p.Retimed > 0 {
		t.Errorf("%+v", p)
	}
	s.apply(file)
	s.exec("insert into shop.orders (number, id, placed_at) values (7, 11, " + at("04 11:50") + ")")
	s.wants("before and after", "1 at 03-06 12:00, 7 at 03-06 12:00")
	if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("%+v, %v", faults, err)
	}
	if p := s.plan(file); p.Changes() {
		t.Errorf("applied again: %+v", p)
	}
	if _, err := s.store.Plan(t.Context(), parse(t, unshipped), nil); err == nil || !strings.Contains(err.Error(), `the checks that wait have the key "number"`) {
		t.Errorf("another column is the key: %v", err)
	}
}

// An apply of a changed delay may concern all rows. It tells how far it has come, and each page is a transaction, which
// holds back vacuum no longer.
func TestAnApplyOfAChangedDelayMovesPageByPageAndTellsOfEach(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	const rows = 450
	s.exec(fmt.Sprintf(`insert into shop.orders (id, placed_at) select n, '2100-01-03 12:00Z' from generate_series(1, %d) as n`, rows))
	var told []int64
	_, err := s.store.Apply(t.Context(), parse(t, strings.Replace(unshipped, "2d", "1d", 1)), func(p rulestore.Progress) {
		told = append(told, p.Rows)
		if n := s.count("select count(*) from prescient.future_job where next_check_at = '2100-01-04 12:00Z'"); int64(n) != p.Rows {
			t.Errorf("told of %d rows, and %d have moved", p.Rows, n)
		}
		if n := s.count(`select count(*) from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and xact_start is not null`); n > 0 {
			t.Errorf("told of %d rows in %d open transactions", p.Rows, n)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{100, 200, 300, 400, rows}; !slices.Equal(told, want) {
		t.Errorf("told of %v rows, want %v", told, want)
	}
}

// The triggers of an update lock the checks of its rows, one after the other. An apply that waited for
// one of them, with locks of others, would hold up the update, or be in a deadlock with it.
func TestAnApplyHoldsUpNoUpdateOfTheApplication(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("insert into shop.orders (id, placed_at) select n, now() + n * interval '15 minutes' from generate_series(1, 103) as n")
	s.apply(unshipped)
	begin := func() *sqlx.Tx {
		tx, err := s.db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	update, other := begin(), begin()
	defer func() { _, _ = update.Rollback(), other.Rollback() }()
	var begun sync.Once
	_, err := s.store.Apply(t.Context(), parse(t, strings.Replace(unshipped, "2d", "1d", 1)), func(rulestore.Progress) {
		begun.Do(func() {
			other.MustExec("select from prescient.future_job where entity_key = '102' for update")
			update.MustExec("set local statement_timeout = '10 s'; update shop.orders set placed_at = placed_at - interval '1 hour' where id = 103")
			go func() {
				pgtest.AwaitWaits(t, s.db, 1) // until the apply waits
				_, err := update.ExecContext(t.Context(), "update shop.orders set placed_at = placed_at - interval '1 hour' where id = 101")
				if err := errors.Join(err, update.Commit(), other.Commit()); err != nil {
					t.Error(err)
				}
			}()
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.count(checks + `select count(*) from f join shop.orders o on o.id::text = f.entity_key
		where f.next_check_at = prescient.slot_ceil(o.placed_at + interval '24 hours')`); n != 103 {
		t.Errorf("%d of 103 checks wait for the new step", n)
	}
}

// The watch of a command over its locks would not see it: no single wait is long.
func TestAnApplyThatWaitsForARowTellsWhoHoldsIt(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("insert into shop.orders (id, placed_at) select n, now() + n * interval '15 minutes' from generate_series(1, 103) as n")
	s.apply(unshipped)
	var update *sqlx.Tx
	var waits *rulestore.LockedError
	_, err := s.store.Apply(t.Context(), parse(t, strings.Replace(unshipped, "2d", "1d", 1)), func(p rulestore.Progress) {
		switch {
		case update == nil: // after the first page
			update = s.db.MustBeginTx(t.Context(), nil)
			update.MustExec("update shop.orders set placed_at = placed_at - interval '1 hour' where id = 102")
		case p.Waits != nil && waits == nil:
			waits = p.Waits
			if err := update.Commit(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || waits == nil {
		t.Fatalf("waited for %v, %v", waits, err)
	}
	if waits.Table != "shop.orders" || !strings.Contains(waits.Mends, "pg_terminate_backend") {
		t.Errorf("waited for %+v", waits)
	}
}

// An apply reads a page, and the application changes a row of it before the page is written.
func TestAnApplyLeavesARowThatTheApplicationHasMovedWithinItsSlot(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, '2100-01-01 12:02Z')")
	retime := func(was string) int {
		return s.count(`select prescient.retime('order.unshipped', array[f.next_check_at], array[f.id], array[$1::timestamptz],
			array[timestamptz '2100-02-01'], array[null]) from prescient.future_job f`, was)
	}
	s.exec("update shop.orders set placed_at = '2100-01-01 12:01Z'")
	if n := retime("2100-01-03 12:02Z"); n != 0 {
		t.Error("the row was moved by what was read before")
	}
	if n := retime("2100-01-03 12:01Z"); n != 1 {
		t.Error("the row was not moved")
	}
}

func TestAfterMigrateDownTheTableIsWrittenAsBefore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), s.db, ""); err != nil {
		t.Fatal(err)
	}
	s.exec("insert into shop.orders (id, placed_at) values (1, now())")
	if n := s.count("select count(*) from pg_trigger where tgrelid = 'shop.orders'::regclass and not tgisinternal"); n != 0 {
		t.Errorf("%d triggers are left", n)
	}
}

func TestATableMayGetAndLoseColumnsThatTheRuleDoesNotRead(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders drop column note")
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.exec("alter table shop.orders add column more integer; alter table shop.orders drop column amount")
	s.exec("insert into shop.orders (id, placed_at) values (3, " + at("04 12:00") + "), (4, " + at("04 12:00") + ")")
	s.exec("update shop.orders set placed_at = " + at("03 12:00") + " where id in (1, 3)")
	s.exec("delete from shop.orders where id in (2, 4)")
	s.wants("after all", "1 at 03-05 12:00, 3 at 03-05 12:00")
}

func TestTheTypeOfAColumnThatTheRuleReadsMayChange(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders alter column id type integer")
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	trigger := get[string](t, s.db, "select tgname from pg_trigger where tgname like 'prescient%update'")
	s.exec("drop trigger " + trigger + " on shop.orders; drop function prescient_rules." + strings.TrimSuffix(trigger, "update") + "row; alter table shop.orders alter column id type bigint")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("04 12:00") + ")")
	s.wants("without what says what a row means", "1 at 03-06 12:00, 2 at 03-04 12:15 came 03-04 12:00")
	if plan := s.apply(unshipped); len(plan.Rules[0].Triggers) != 3 {
		t.Errorf("triggers %v are created", plan.Rules[0].Triggers)
	}
	s.exec("insert into shop.orders (id, placed_at) values (3000000000, " + at("04 12:00") + ")")
	s.wants("after the apply", "1 at 03-06 12:00, 2 at 03-06 12:00 came 03-04 12:00, 3000000000 at 03-06 12:00")
}

func TestATableThatTookTheNameOfAnotherHasTheTriggersAlone(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec(`alter table shop.orders rename to orders_before;
		create table shop.orders (like shop.orders_before including all)`)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.exec("insert into shop.orders_before (id, placed_at) values (3, " + at("04 12:00") + ")")
	s.exec("delete from shop.orders where id = 2")
	s.wants("after all", "1 at 03-06 12:00")
}

// PostgreSQL 15.20 refuses more for a table whose row type is a parameter of a function with a bound body.
func TestATableWithARuleIsAlteredAsAnyOther(t *testing.T) {
	t.Parallel()
	for kind, partitions := range map[string]string{
		"ordinary":    "",
		"partitioned": " partition by range (id); create table shop.parcels_1 partition of shop.parcels for values from (0) to (100)",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`create table shop.parcels (id bigint primary key, weight integer, placed_at timestamptz, shipped_at timestamptz,
				channel text default 'web')` + partitions)
			file := strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels")
			s.apply(file)
			s.db.SetMaxOpenConns(1) // the session has a plan of each trigger before the table changes
			insert := func(id string) {
				s.exec("insert into shop.parcels (id, placed_at) values (" + id + ", " + at("04 12:00") + ")")
				s.exec("update shop.parcels set placed_at = " + at("03 12:00") + " where id = " + id)
			}
			insert("1")
			for _, change := range []string{
				"add column priority integer not null default 0", "add column token uuid default gen_random_uuid()",
				"alter column weight type bigint", "drop column weight", "add column twice bigint generated always as (id * 2) stored",
			} {
				s.exec("alter table shop.parcels " + change)
			}
			insert("2")
			if plan := s.plan(file); plan.Changes() {
				t.Errorf("it would change %+v", plan.Rules)
			}
			s.exec("alter table shop.parcels rename placed_at to ordered_at; alter table shop.parcels rename id to number")
			s.exec("insert into shop.parcels (number, ordered_at) values (3, " + at("04 12:00") + "), (4, " + at("04 12:00") + ")")
			s.exec("delete from shop.parcels where number = 4")
			s.wants("after all", "1 at 03-05 12:00, 2 at 03-05 12:00, 3 at 03-06 12:00")
		})
	}
}

// As a change of a column's type without a lock does it. Until the apply, an update of the new column alone moves nothing.
func TestAColumnThatTookTheNameOfAnotherIsRead(t *testing.T) {
	t.Parallel()
	file := strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels")
	for kind, partitions := range map[string]string{
		"ordinary":    "",
		"partitioned": " partition by range (id); create table shop.parcels_1 partition of shop.parcels for values from (0) to (100)",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz,
				channel text default 'web')` + partitions)
			s.apply(file)
			s.exec(`alter table shop.parcels add column other_at timestamptz;
				alter table shop.parcels rename placed_at to before_at;
				alter table shop.parcels rename other_at to placed_at`)
			s.exec("insert into shop.parcels (id, placed_at) values (1, " + at("04 12:00") + "), (2, null)")
			s.exec("update shop.parcels set placed_at = " + at("04 12:00") + " where id = 2")
			s.wants("before the apply", "1 at 03-06 12:00")
			s.apply(file)
			s.exec("insert into shop.parcels (id, placed_at) values (3, " + at("04 12:00") + ")")
			s.wants("after the apply", "1 at 03-06 12:00, 2 at 03-06 12:00, 3 at 03-06 12:00")
			if plan := s.plan(file); plan.Changes() {
				t.Errorf("it would change %+v", plan.Rules)
			}
		})
	}
}

// A dump has the columns of a table without those that were dropped, so they get other numbers.
func TestARenamedColumnOfATableThatWasRestoredIsRead(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders drop note")
	s.apply(unshipped)
	var made []string
	if err := s.db.SelectContext(t.Context(), &made, `
		select pg_get_functiondef(p.oid)
		from pg_proc p
		where p.pronamespace = 'prescient_rules'::regnamespace and p.proname like '%safe'
		union all
		select pg_get_triggerdef(g.oid) from pg_trigger g where g.tgrelid = 'shop.orders'::regclass`); err != nil {
		t.Fatal(err)
	}
	s.exec(`drop table shop.orders cascade;
		create table shop.orders (
			id bigint primary key, channel text not null default 'web', amount numeric not null default 1, placed_at timestamptz,
			shipped_at timestamptz)`)
	for _, statement := range made {
		s.exec(statement)
	}
	s.exec("alter table shop.orders rename placed_at to ordered_at")
	s.exec("insert into shop.orders (id, ordered_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.exec("update shop.orders set ordered_at = " + at("05 12:00") + " where id = 2")
	s.exec("alter table shop.orders rename id to number")
	s.exec("insert into shop.orders (number, ordered_at) values (3, " + at("04 12:00") + ")")
	s.exec("delete from shop.orders where number = 1")
	s.wants("after all", "2 at 03-07 12:00, 3 at 03-06 12:00")
}

// The numbers of the columns are those of the table of the rule, and not of the table of which it is a partition.
func TestATableThatBecameAPartitionIsReadAsBefore(t *testing.T) {
	t.Parallel()
	for kind, partitions := range map[string]string{
		"ordinary":    "",
		"partitioned": " partition by range (id); create table shop.parcels_1 partition of shop.parcels for values from (0) to (100)",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, due_at timestamptz,
				channel text default 'web')` + partitions)
			s.apply(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"))
			s.exec(`create table shop.everything (channel text default 'web', due_at timestamptz, shipped_at timestamptz, placed_at timestamptz,
					id bigint primary key) partition by range (id);
				alter table shop.everything attach partition shop.parcels for values from (0) to (100);
				alter table shop.everything rename placed_at to ordered_at`)
			s.exec("insert into shop.parcels (id, ordered_at, due_at) values (1, " + at("04 12:00") + ", " + at("14 12:00") + ")")
			s.wants("after the insert", "1 at 03-06 12:00")
		})
	}
}

func TestAnApplyThatMakesATriggerAnewLooksAtAllRows(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("drop trigger " + get[string](t, s.db, "select quote_ident(tgname) from pg_trigger where tgname like 'prescient%insert'") + " on shop.orders")
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	s.apply(with(unshipped, "payload: [id]"))
	s.wants("after the apply", "1 at 03-06 12:00")
}

func TestARuleOfAColumnWithAnyNameIsUnchanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`alter table shop.orders add "größe\{row}" integer, add prescient_now bigint`)
	file := strings.Replace(unshipped, "where: channel <> 'test'", `where: '"größe\{row}" is null and prescient_now is null'`, 1)
	s.apply(file)
	if plan := s.plan(file); plan.Changes() {
		t.Errorf("it would change %+v", plan.Rules)
	}
}

// Values may be equal, and mean something else to a condition.
func TestAnUpdateToAnEqualValueCounts(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add grace interval not null default '1 month', add data jsonb not null default '{\"a\": 1.0}'")
	s.apply(strings.Replace(unshipped, "where: channel <> 'test'", "where: extract(day from grace) = 30 or data ->> 'a' = '1.00'", 1))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "), (2, " + at("04 12:00") + ")")
	s.wants("after the insert", "")
	s.exec("update shop.orders set grace = '30 days' where id = 1; update shop.orders set data = '{\"a\": 1.00}' where id = 2")
	s.wants("after the update", "1 at 03-06 12:00, 2 at 03-06 12:00")
}

func TestChecksThatWaitForTheNameOfANewRuleAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("select prescient.enqueue('order.unshipped', 'orders', '1', check_at => now())")
	_, err := s.store.Apply(t.Context(), parse(t, unshipped), nil)
	if err == nil || !strings.Contains(err.Error(), "line 3: rule order.unshipped: name: 1 check of job order.unshipped wait") {
		t.Errorf("error %v", err)
	}
}

func TestMigrateDownDoesNotWaitLongForATableInUse(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped)
	reader, err := s.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback() }()
	if _, err := reader.Exec("select from shop.orders"); err != nil {
		t.Fatal(err)
	}
	var holder string
	if err := reader.QueryRow("select format('Locks are held by session %s of ', pg_backend_pid())").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if err := pgsql.MigrateDown(reserved.Caller{}, t.Context(), s.db, ""); err == nil || !strings.Contains(err.Error(), holder) {
		t.Errorf("error %v, want %s", err, holder)
	}
}

func TestATableThatIsMadeAnewWithPartitionsGetsMore(t *testing.T) {
	t.Parallel()
	s := rolesOn(t, "rule_anew")
	s.apply(unshipped)
	s.exec(`drop table shop.orders cascade;
		create table shop.orders (id bigint primary key, channel text, placed_at timestamptz, shipped_at timestamptz) partition by range (id);
		alter table shop.orders owner to rule_anew_shop`)
	s.apply(unshipped)
	login(t, s.url, "rule_anew_shop").MustExec(`create table shop.orders_1 partition of shop.orders for values from (0) to (100);
		insert into shop.orders (id, channel, placed_at) values (1, 'web', now())`)
	if n := s.count("select count(*) from rule_anew.future_job"); n != 1 {
		t.Errorf("%d checks wait", n)
	}
}

// Triggers do not see the rows that a table has when it becomes a partition.
func TestRowsOfAPartitionThatIsAttachedWaitAfterAnApply(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(`create table shop.parcels (id bigint primary key, placed_at timestamptz, shipped_at timestamptz) partition by range (id);
		create table shop.parcels_0 partition of shop.parcels for values from (0) to (10)`)
	file := strings.ReplaceAll(strings.ReplaceAll(unshipped, "shop.orders", "shop.parcels"), "    where: channel <> 'test'\n", "")
	s.apply(file)
	faults := func(what string, want ...string) {
		t.Helper()
		faults, err := s.store.Faults(t.Context())
		var got []string
		for _, f := range faults {
			got = append(got, f.Attached...)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	s.exec("create table shop.parcels_1 partition of shop.parcels for values from (10) to (20)")
	faults("a new partition")
	s.exec("create table shop.parcels_2 (like shop.parcels including all); insert into shop.parcels_2 values (21, " + at("04 12:00") + ")")
	s.exec("alter table shop.parcels attach partition shop.parcels_2 for values from (20) to (30)")
	s.wants("attached", "")
	faults("attached", "shop.parcels_2")
	if plan := s.plan(file); plan.Rules[0].Begin != 1 {
		t.Errorf("%+v", plan.Rules)
	}
	s.apply(file)
	s.wants("applied", "21 at 03-06 12:00")
	faults("applied")
	if plan := s.plan(file); plan.Changes() {
		t.Errorf("%+v", plan.Rules)
	}
}

// The rows that another apply lets wait are no checks of a job that happens to have the name.
func TestARuleThatAnotherApplyHasMadeMeanwhileIsUnchanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("insert into shop.orders (id, placed_at) values (1, now())")
	other := *s
	other.open()
	s.open(func(cfg *rulestore.Config) {
		cfg.Reserved = func(string) bool { // is called after the rules were listed
			other.apply(unshipped)
			return false
		}
	})
	if got := s.apply(unshipped).Rules[0].Action; got != rulestore.Unchanged {
		t.Errorf("action %s", got)
	}
}

// meanwhile applies a file, and calls fn once, after a page.
func (s *shop) meanwhile(file string, page int64, fn func()) error {
	s.t.Helper()
	_, err := s.store.Apply(s.t.Context(), parse(s.t, file), func(p rulestore.Progress) {
		if p.Rows == page {
			fn()
		}
	})
	return err
}

func TestTwoAppliesOfOneFileBothEnd(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(5, 254)
	other := *s
	other.open(func(cfg *rulestore.Config) { cfg.Now = func() time.Time { return s.now } })
	if err := s.meanwhile(unshipped, 100, func() { other.apply(unshipped) }); err != nil {
		t.Error(err)
	}
	if n := s.count("select count(*) from prescient.future_job"); n != 250 {
		t.Errorf("%d checks wait", n)
	}
	if err := s.meanwhile(afterADay, 100, func() { other.apply(unshipped) }); !errors.Is(err, rulestore.ErrChanged) {
		t.Errorf("another file: %v", err)
	}
}

// Its last page would let rows wait that no check ends.
func TestARemoveBesideAnApplyLeavesNoRow(t *testing.T) {
	t.Parallel()
	for _, page := range []int64{100, 200} {
		s := newShopAt(t, noon)
		s.rows(5, 254)
		err := s.meanwhile(unshipped, page, func() {
			if _, err := s.store.Remove(t.Context(), "order.unshipped", nil); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, rulestore.ErrChanged) {
			t.Errorf("after %d rows: %v", page, err)
		}
		s.wants("removed", "")
	}
}

// A check locks its rule until it is recorded, and there may always be one.
func TestTheWalkOfAnApplyDoesNotWaitForChecks(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.rows(5, 254)
	check := s.db.MustBegin()
	defer func() { _ = check.Rollback() }()
	err := s.meanwhile(unshipped, 100, func() {
		check.MustExec("select from prescient.lock_rule('order.unshipped', now())")
	})
	if err != nil {
		t.Error(err)
	}
	changed := make(chan error)
	go func() {
		_, err := s.store.Apply(t.Context(), parse(t, afterADay), nil)
		changed <- err
	}()
	s.eventually("a change to wait for the check", func() bool { return pgtest.Waits(t, s.db) > 0 })
	if err := check.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Error(err)
	}
}
