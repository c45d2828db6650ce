package rulestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// unpaid is a rule that a payment in another table ends.
const unpaid = `
rules:
  - name: order.unpaid
    table: shop.orders
    key: id
    since: placed_at
    done: exists (select from shop.payment p where p.order_id = orders.id and p.settled)
    also: {table: shop.payment, key: order_id}
    steps: [{after: 2d, event: order.unpaid}]
`

// heldOrder is the beginning of a rule, without its steps.
const heldOrder = `
rules:
  - name: order.held
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    `

const payments = `create table shop.payment (id int primary key, order_id int, settled bool)`

func newUnpaid(t *testing.T, change string) *shop {
	s := newShopAt(t, noon)
	s.exec(payments + change)
	s.exec("insert into shop.orders (id, placed_at) select i, " + at("04 12:00") + " from generate_series(1, 5) as i")
	s.apply(unpaid)
	return s
}

func TestAWriteToAnotherTableLetsTheRowBeLookedAtInTheNextSlot(t *testing.T) {
	t.Parallel()
	for name, partitioned := range map[string]string{
		"a table": "",
		"a table with partitions": `; drop table shop.payment; create table shop.payment (id int, order_id int, settled bool) partition by range (id);
			create table shop.first partition of shop.payment default`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnpaid(t, partitioned)
			const waits = "03-06 12:00"
			list := func(looked string) string {
				var rows []string
				for i := 1; i <= 5; i++ {
					slot := waits
					if strings.Contains(looked, fmt.Sprint(i)) {
						slot = "03-04 12:15"
					}
					rows = append(rows, fmt.Sprintf("%d at %s", i, slot))
				}
				return strings.Join(rows, ", ")
			}
			s.wants("apply", list(""))
			s.exec("insert into shop.payment values (1, 1, false), (2, null, true), (3, 2, true)")
			s.wants("insert", list("12"))
			s.exec("update prescient.future_job set next_check_at = timestamptz '2030-03-06 12:00+00'")
			s.exec("update shop.payment set order_id = 3 where id = 1")
			s.wants("an update of the key", list("13"))
			s.exec("delete from shop.payment where id = 3")
			s.wants("delete", list("123"))
			s.exec("update shop.payment set settled = true where order_id = 99; delete from shop.payment where id = 99")
			s.wants("no row", list("123"))
			s.exec("delete from prescient.future_job; update shop.payment set settled = true")
			s.wants("a row that does not wait", "3 at 03-04 12:15 came 03-04 12:00")
		})
	}
}

// The function of the trigger has variables of these names.
func TestTheColumnOfAnotherTableMayHaveAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"keys", "alike", "tg_op", "new"} {
		for _, partitions := range []string{"", " partition by list (settled); create table shop.first partition of shop.payment default"} {
			s := newShopAt(t, noon)
			s.exec(fmt.Sprintf("create table shop.payment (%q int, settled bool)", name) + partitions)
			s.apply(strings.NewReplacer("p.order_id", fmt.Sprintf("p.%q", name), "order_id", name).Replace(unpaid))
			s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
			s.exec("insert into shop.payment values (1, true)")
			s.wants(name, "1 at 03-04 12:15")
		}
	}
}

// An application's write never fails because of the rule.
func TestAWriteToAnotherTableSucceedsWhateverBecameOfItsColumns(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"renamed":            "alter table shop.payment rename column order_id to of_order",
		"dropped":            "alter table shop.payment drop column order_id cascade",
		"another type":       "alter table shop.payment alter column order_id type text",
		"another table":      "alter table shop.payment rename to paid",
		"the table is gone":  "drop table shop.payment cascade; create table shop.payment (id int)",
		"keys out of bounds": "alter table shop.payment alter column order_id type text; insert into shop.payment values (7, repeat('x', 501), true), (8, '', true)",
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnpaid(t, "")
			s.exec("insert into shop.payment values (1, 1, false)")
			s.exec(change)
			table := "shop.payment"
			if name == "another table" {
				table = "shop.paid"
			}
			s.exec("insert into " + table + " (id) values (2); update " + table + " set id = id + 10; delete from " + table)
		})
	}
}

func TestTriggersOfAnotherTableComeAndGoWithTheRule(t *testing.T) {
	t.Parallel()
	s := newUnpaid(t, "")
	const triggers = "select count(*) from pg_trigger where not tgisinternal and tgrelid = 'shop.payment'::regclass"
	if n := s.count(triggers); n != 3 {
		t.Errorf("%d triggers, want 3", n)
	}
	if plan := s.apply(unpaid); plan.Rules[0].Action != rulestore.Unchanged {
		t.Errorf("the second apply: %+v", plan.Rules[0])
	}
	s.exec("alter table shop.payment disable trigger all")
	faults, err := s.store.Faults(t.Context())
	if err != nil || len(faults) != 1 || len(faults[0].Missing) != 3 || !strings.HasSuffix(faults[0].Missing[0], " on shop.payment") {
		t.Errorf("faults %+v, %v", faults, err)
	}
	if plan := s.apply(unpaid); plan.Rules[0].Action != rulestore.Change || len(plan.Rules[0].Triggers) != 3 {
		t.Errorf("after they were disabled: %+v", plan.Rules[0])
	}
	without := strings.Replace(unpaid, "    also: {table: shop.payment, key: order_id}\n", "", 1)
	plan := s.apply(without)
	if n := s.count(triggers); n != 0 {
		t.Errorf("%d triggers without also", n)
	}
	if got := plan.Rules[0].Unseen; len(got) != 1 || got[0] != "shop.payment" {
		t.Errorf("without also: %q", got)
	}
	if plan := s.apply(unpaid); len(plan.Rules[0].Unseen) != 0 {
		t.Errorf("with also: %q", plan.Rules[0].Unseen)
	}
	if _, err := s.store.Remove(t.Context(), "order.unpaid", nil); err != nil || s.count(triggers) != 0 {
		t.Errorf("removed: %v, %d triggers", err, s.count(triggers))
	}
}

func TestAMistakeInAlsoIsNamed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(payments + `; create table shop.note (order_id numeric); create view shop.paid as select * from shop.payment;
		create table shop.bill (id numeric primary key, placed_at timestamptz);
		create table shop.priced (id numeric(10,2) primary key, placed_at timestamptz);
		create table shop.part (order_id numeric(10,2), other numeric(10,1))`)
	for also, want := range map[string]string{
		"{table: shop.paymnt, key: order_id}":                                 "also: there is no table shop.paymnt",
		"{table: shop.payment, key: order}":                                   "also: table shop.payment has no column order",
		"{table: shop.note, key: order_id}":                                   "also: column order_id is of type numeric, and key id of type bigint",
		"{table: shop.paid, key: order_id}":                                   "also: shop.paid is not a table",
		"[{table: shop.payment, key: order_id}, {table: shop.paid, key: id}]": "also[2]: shop.paid is not a table",
	} {
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(unpaid, "{table: shop.payment, key: order_id}", also, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", also, err)
		}
	}
	for file, want := range map[string]string{
		"bill note.order_id":   "1 and 1.0 are equal numbers with two texts",
		"priced part.other":    "their texts differ",
		"priced part.order_id": "",
	} {
		table, other, _ := strings.Cut(file, " ")
		other, key, _ := strings.Cut(other, ".")
		file := strings.NewReplacer("shop.payment", "shop."+other, "p.order_id", "p."+key, "order_id", key,
			"shop.orders", "shop."+table, "orders.id", table+".id", " and p.settled", "").Replace(unpaid)
		_, err := s.store.Plan(t.Context(), parse(t, file), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: %v", table, other, err)
		}
	}
	_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(unpaid, "done: exists", "done: shipped_at\n    #", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "also: no expression of the rule reads another table") {
		t.Error(err)
	}
}

// Its steps that have passed are for overdue to decide, so its check knows when it came.
func TestARowWhoseCheckEndsWhileAnotherTableIsWrittenComesAfresh(t *testing.T) {
	t.Parallel()
	for name, written := range map[string]string{"one row": "(1, 1, true)", "two rows": "(1, 1, true), (2, 2, true)"} {
		t.Run(name, func(t *testing.T) {
			s := newUnpaid(t, "")
			ends, err := s.db.BeginTxx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ends.Rollback() }()
			if _, err := ends.Exec("delete from prescient.future_job where entity_key = '1'"); err != nil {
				t.Fatal(err)
			}
			var writes sync.WaitGroup
			writes.Go(func() { s.exec("insert into shop.payment values " + written) })
			s.eventually("the payment to wait for the check", func() bool { return pgtest.Waits(t, s.db) > 0 })
			if err := ends.Commit(); err != nil {
				t.Fatal(err)
			}
			writes.Wait()
			if first, _, _ := strings.Cut(s.waiting(), ","); first != "1 at 03-04 12:15 came 03-04 12:00" {
				t.Errorf("waiting %q", first)
			}
		})
	}
}

// The trigger leaves a check as it is that waits for a slot before the instant that it would get. If the transaction has
// not ended when that slot is run, the check does not see what it has written.
func TestARowIsLookedAtAgainIfATransactionIsOpenWhoseTriggerHasLeftItsCheck(t *testing.T) {
	t.Parallel()
	const lookup = heldOrder + `also: {table: shop.hold, key: order_id}
    steps: [{after: {interval: "(select make_interval(days => h.days) from shop.hold h where h.order_id = orders.id)"}, event: a}]`
	for name, test := range map[string]struct{ file, before, written string }{
		"how often": {
			heldOrder + "steps: [{after: 30m, every: 1d, times: {count: amount::bigint}, event: a}]",
			"insert into shop.orders (id, amount, placed_at) values (1, 0, " + at("04 11:45") + ")", "update shop.orders set amount = 1",
		},
		"how often, for a row that is opened again": {
			heldOrder + "steps: [{after: 30m, every: 1d, times: {count: amount::bigint}, event: a}]",
			"insert into shop.orders (id, amount, placed_at) values (1, 0, " + at("04 11:45") + "); update shop.orders set shipped_at = placed_at",
			"update shop.orders set amount = 1, shipped_at = null",
		},
		"the end of a pause, for a row that is opened again": {
			heldOrder + "pause: channel = 'hold'\n    steps: [{after: 30m, event: a}]",
			"insert into shop.orders (id, channel, placed_at) values (1, 'hold', " + at("04 11:40") + "); update shop.orders set shipped_at = placed_at",
			"update shop.orders set shipped_at = null, channel = 'web'",
		},
		"a planned end, which it takes back": {
			heldOrder + "steps: [{after: 30m, event: a}]",
			"insert into shop.orders (id, placed_at, shipped_at) values (1, " + at("04 11:40") + ", " + at("04 12:12") + ")",
			"update shop.orders set shipped_at = null",
		},
		"the row itself, for a check that another table has brought": {
			strings.Replace(heldOrder, "done: shipped_at", "done: exists (select from shop.hold h where h.order_id = orders.id and h.days < 0)", 1) +
				"where: channel <> 'test'\n    also: {table: shop.hold, key: order_id}\n    steps: [{after: 30m, event: a}]",
			"insert into shop.hold values (1, 0)",
			"insert into shop.orders (id, channel, placed_at) values (1, 'test', " + at("04 11:50") + "); update shop.orders set channel = 'web'",
		},
		"the start of the clock": {
			strings.Replace(heldOrder, "since: placed_at", `since: [placed_at, "(select timestamptz 'infinity' from shop.hold h where h.order_id = nullif(orders.amount, 0))"]`, 1) +
				"also: {table: shop.hold, key: order_id}\n    steps: [{after: 30m, event: a}]",
			"insert into shop.hold values (7, 0); insert into shop.orders (id, amount, placed_at) values (1, 7, " + at("04 11:42") + ")",
			"update shop.orders set amount = 0",
		},
		"the delay of a row that came late and is spread": {
			heldOrder + "overdue: spread 960\n    steps: [{after: {interval: make_interval(mins => amount::int)}, event: a}]",
			"insert into shop.orders (id, amount, placed_at) values (1, 10, " + at("04 11:40") + ")",
			"update shop.orders set amount = 40",
		},
		"a delay of another table": {
			lookup, "insert into shop.orders (id, placed_at) values (1, " + at("04 10:00") + ")", "insert into shop.hold values (1, 0)",
		},
		"a shorter one": {
			lookup, "insert into shop.hold values (1, 10); insert into shop.orders (id, placed_at) values (1, " + at("04 10:00") + ")",
			"update shop.hold set days = 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShopAt(t, noon)
			s.exec("create table shop.hold (order_id bigint primary key, days int)")
			s.apply(test.file)
			s.exec(test.before)
			if got := s.waiting(); !strings.HasPrefix(got, "1 at 03-04 12:15") {
				t.Fatalf("waiting %q", got)
			}
			s.now = noon.Add(10 * time.Minute)
			writer := s.db.MustBegin()
			defer func() { _ = writer.Rollback() }()
			if _, err := writer.Exec("select set_config('prescient_caller.clock', $1, true)", s.now.Format(time.RFC3339Nano)); err != nil {
				t.Fatal(err)
			}
			if _, err := writer.Exec(test.written); err != nil {
				t.Fatal(err)
			}
			fired := s.replays(noon.Add(16 * time.Minute))
			if got := s.waiting(); !strings.HasPrefix(got, "1 at 03-04 12:30") {
				t.Errorf("while the transaction is open: waiting %q", got)
			}
			if err := writer.Commit(); err != nil {
				t.Fatal(err)
			}
			fired = append(fired, s.replays(noon.AddDate(0, 0, 2))...)
			if got := strings.Join(fired, ", "); got != "1 at 03-04 12:30" {
				t.Errorf("fired %q", got)
			}
		})
	}
}

// The trigger leaves a check as it is that comes early enough, and the transaction commits after an apply has read the row.
func TestAnApplyMovesNoCheckLaterThatATriggerReliesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, before, written, waits, want string }{
		"another table": {
			heldOrder + `also: {table: shop.hold, key: order_id}
    steps: [{after: {interval: "(select make_interval(days => h.days) from shop.hold h where h.order_id = orders.id)"}, event: a}]`,
			"insert into shop.hold values (1, 10); insert into shop.orders (id, placed_at) values (1, " + at("04 10:00") + ")",
			"update shop.hold set days = 0", "1 at 03-04 12:15", "1 at 03-04 12:15",
		},
		"a column": {
			heldOrder + "steps: [{after: {interval: make_interval(hours => amount::int)}, event: a}]",
			"insert into shop.orders (id, amount, placed_at) values (1, 3, " + at("04 10:00") + "); update shop.orders set amount = 960",
			"update shop.orders set amount = 4", "1 at 03-04 13:00", "1 at 03-04 14:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShopAt(t, noon)
			s.exec("create table shop.hold (order_id bigint primary key, days int)")
			s.apply(test.file)
			s.exec(test.before)
			if got := s.waiting(); !strings.HasPrefix(got, test.waits) {
				t.Fatalf("waiting %q", got)
			}
			writer := s.db.MustBegin()
			defer func() { _ = writer.Rollback() }()
			writer.MustExec("select set_config('prescient_caller.clock', $1, true)", s.now.Format(time.RFC3339Nano))
			writer.MustExec(test.written)
			if _, err := s.store.Again().Apply(t.Context(), parse(t, test.file), nil); err != nil {
				t.Fatal(err)
			}
			if err := writer.Commit(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.replays(noon.AddDate(0, 0, 2)), ", "); got != test.want {
				t.Errorf("fired %q, want %q", got, test.want)
			}
		})
	}
}

// Its trigger would rely on a check that has ended since.
func TestAnOlderSnapshotFailsIfTheCheckHasEndedThatATriggerReliesOn(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("create table shop.hold (order_id bigint primary key, days int)")
	s.apply(`
rules:
  - name: order.held
    table: shop.orders
    key: id
    since: placed_at
    where: channel <> 'test'
    done: exists (select from shop.hold h where h.order_id = orders.id and h.days < 0)
    also: {table: shop.hold, key: order_id}
    steps: [{after: 2d, event: a}]
`)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + "); update shop.orders set channel = 'test'")
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		writer, err := s.db.BeginTxx(t.Context(), &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = writer.Rollback() }()
		writer.MustExec("select set_config('prescient_caller.clock', $1, true)", s.now.Add(time.Minute).Format(time.RFC3339Nano))
		writer.MustExec("select from shop.orders")
		s.exec("delete from shop.hold; insert into shop.hold values (1, 0)")
		if fired := s.replays(s.now.Add(16 * time.Minute)); len(fired) > 0 || s.waiting() != "" {
			t.Fatalf("fired %q, waiting %q", fired, s.waiting())
		}
		_, err = writer.Exec("update shop.orders set channel = 'web'")
		if failed, ok := errors.AsType[*pq.Error](err); !ok || failed.Code != "40001" {
			t.Errorf("%s: %v", level, err)
		}
		if err := writer.Rollback(); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(time.Hour)
		s.exec("update shop.orders set channel = 'web'; update shop.orders set channel = 'test'")
	}
}
