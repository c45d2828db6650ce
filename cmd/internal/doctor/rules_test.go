package doctor

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const orders = "create table shop.orders (id text primary key, placed_at timestamptz, shipped_at timestamptz, customer text, state shop.state)"

// others are what the rule needs beside the table.
var others = pgtest.CreateSchema("shop") + `; create type shop.state as enum ('open', 'void');
	create table shop.payment (id bigint primary key, order_id text);
	create table shop.escalation (order_id text);`

const unshipped = `{rules: [{name: unshipped, table: shop.orders, key: id, since: placed_at, payload: [customer], where: state is distinct from 'void',
    done: [shipped_at, exists (select from shop.payment p where p.order_id = orders.id)],
    steps: [{after: 2d, event: late, sql: insert into shop.escalation values ($key)}]}]}`

// apply applies the rule.
func (w *ward) apply() {
	w.t.Helper()
	w.applyOf(unshipped)
}

// applyOf applies the rules of a file.
func (w *ward) applyOf(text string) {
	w.t.Helper()
	file, err := rule.Parse(strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := rulestore.New(w.t.Context(), w.db, rulestore.Config{Schema: w.Schema.String()})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := store.Apply(w.t.Context(), file, nil); err != nil {
		w.t.Fatal(err)
	}
}

// A migration of the application may hold its lock for an hour.
func TestNothingWaitsLongForTheLockOfATableOfAnApplication(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(others + orders)
	w.apply()
	w.exec("create table prescient.theirs (n integer); create table public.customers (n integer)")
	other, err := w.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	other.MustExec("lock table shop.orders, shop.escalation, prescient.theirs, public.customers in access exclusive mode")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Examine(ctx, w.Config); err != nil {
		t.Error(err)
	}
}

func TestARuleWhoseTriggersCannotWorkIsFoundUntilItIsMended(t *testing.T) {
	t.Parallel()
	const alter = "alter table shop.orders "
	faults := map[string]struct {
		bring, mend string // no mend: rules apply mends it
		want        []string
	}{
		"a trigger that was dropped": {
			"drop trigger prescient_unshipped_insert on shop.orders", "",
			[]string{"rule unshipped: table shop.orders lacks its triggers prescient_unshipped_insert: ", "orders rules apply -f FILE"},
		},
		"a trigger that is disabled": {
			alter + "disable trigger prescient_unshipped_delete", "",
			[]string{"its triggers prescient_unshipped_delete of table shop.orders are disabled: ", "orders rules apply -f FILE"},
		},
		"triggers that fire in replicas alone": {
			alter + "enable replica trigger prescient_unshipped_update", "",
			[]string{"its triggers prescient_unshipped_update of table shop.orders are disabled: "},
		},
		"a column that was renamed": {
			alter + "rename placed_at to ordered_at", alter + "rename ordered_at to placed_at",
			[]string{
				`table shop.orders has no "placed_at", which the rule reads, so its checks fail`,
				"orders rules apply -f FILE  -- with the new name of the column in the file. If it was dropped, take it out of the file",
			},
		},
		"a column of the payload that was renamed": {
			alter + "rename customer to client", alter + "rename client to customer",
			[]string{`table shop.orders has no "customer", which the rule reads, so its checks fail`},
		},
		"a column of the payload that was dropped": {
			alter + "drop customer", alter + "add customer text",
			[]string{`table shop.orders has no "customer", which the rule reads, so its checks fail`},
		},
		"a column that was dropped": {
			alter + "drop shipped_at cascade", alter + "add shipped_at timestamptz",
			[]string{
				`table shop.orders has no "shipped_at"`, "If it was dropped, take it out of the file",
				"lacks its triggers prescient_unshipped_update",
			},
		},
		"a function that was dropped": {
			"drop function prescient_rules.prescient_unshipped_row", "",
			[]string{"the function that its triggers share was dropped: all rows that are written to table shop.orders wait for the next slot"},
		},
		"a column that took the name of another": {
			alter + "add other timestamptz; " + alter + "rename placed_at to before; " + alter + "rename other to placed_at", "",
			[]string{`its triggers read another column of table shop.orders than "placed_at", which had the name before`, "orders rules apply -f FILE"},
		},
		"a key that no longer identifies a row": {
			alter + "drop constraint orders_pkey, alter column id drop not null",
			alter + "alter column id set not null, add unique (id)",
			[]string{
				"the key no longer identifies a row of table shop.orders alone: checks take several rows for one",
				"alter table shop.orders alter column id set not null, add unique (id)  -- or remove the rule: orders rules remove unshipped",
			},
		},
		"a table that became a partition": {
			"create table shop.all_orders (like shop.orders) partition by list (id); alter table shop.all_orders attach partition shop.orders default",
			"alter table shop.all_orders detach partition shop.orders",
			[]string{"table shop.orders has become a part of table shop.all_orders: its triggers miss rows", "orders rules remove unshipped"},
		},
		"a table that inherits from the table": {
			"create table shop.archive () inherits (shop.orders)", "drop table shop.archive",
			[]string{"shop.archive inherits from table shop.orders: rows that are written to it do not wait", "alter table shop.archive no inherit shop.orders"},
		},
		"a value that was renamed": {
			"alter type shop.state rename value 'void' to 'cancelled'", "alter type shop.state rename value 'cancelled' to 'void'",
			[]string{"its checks fail: type shop.state has no value 'void': it has open, cancelled", "with what there is now in the file, or bring back what is gone"},
		},
		"a table of a lookup that was renamed": {
			"alter table shop.payment rename to payments", "alter table shop.payments rename to payment",
			[]string{"its checks fail: there is no table shop.payment"},
		},
		"a table of a statement that was dropped": {
			"drop table shop.escalation", "create table shop.escalation (order_id text)",
			[]string{"its checks fail: step late: there is no table shop.escalation"},
		},
		"keys that no check can have": {
			"insert into shop.orders (id, placed_at) values ('', now()), (repeat('x', 600), now())", "delete from shop.orders",
			[]string{"rows of table shop.orders cannot wait, because their keys do not have 1 to 500 bytes: '', xxxxxxxxxxxxxxxxxxxx...", "octet_length(KEY) between 1 and 500"},
		},
		"a table that was renamed": {
			alter + "rename to old_orders", "alter table shop.old_orders rename to orders",
			[]string{"table shop.orders is now shop.old_orders, so its checks fail", "with table: shop.old_orders and entity: orders in the file"},
		},
		"a schema that was renamed": {
			"alter schema shop rename to store", "alter schema store rename to shop",
			[]string{"table shop.orders is now store.orders, so its checks fail", "with table: store.orders in the file"},
		},
		"a table that was dropped": {
			"drop table shop.orders cascade", orders,
			[]string{"there is no table shop.orders, so its checks fail", "orders rules remove unshipped  -- or restore the table, and apply the rule again"},
		},
	}
	for n, name := range slices.Sorted(maps.Keys(faults)) {
		if testing.Short() && n%3 > 0 {
			continue
		}
		test := faults[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.exec(others + orders)
			w.apply()
			if found := w.look(); has(found, "rules", Action, "") {
				t.Fatalf("it is there before: %+v", found)
			}
			w.exec(test.bring)
			found := w.look()
			before := 0
			for _, part := range test.want {
				at := slices.IndexFunc(found, func(f Finding) bool { return has([]Finding{f}, "rules", Action, part) })
				if at < before {
					t.Errorf("%q is not found, or in another order: %+v", part, found)
				}
				before = max(before, at)
			}
			if test.mend != "" {
				w.exec(test.mend)
			}
			w.apply()
			if found := w.look(); has(found, "rules", Action, "") {
				t.Errorf("it is still there: %+v", found)
			}
		})
	}
}

func TestAJobOfTheBinaryWithTheNameOfARuleIsFound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(others + orders)
	w.apply()
	w.Jobs = []string{"shipped"}
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("another name: %+v", found)
	}
	w.Jobs = []string{"shipped", "unshipped"}
	want := "rule unshipped: a job of this binary or of its settings has this name, and gets the rows of the rule"
	if found := w.look(); !has(found, "rules", Action, want) {
		t.Errorf("%+v", found)
	}
}

func TestAnApplyOrARemoveThatHasStoppedIsFoundUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(others + orders)
	w.apply()
	for state, want := range map[string]string{
		"applying": "rule unshipped: an apply has stopped at 20",
		"removing": "rule unshipped: a remove has stopped at 20",
	} {
		w.exec("update prescient.rule set state = '" + state + "', updated_at = now() - interval '4 minutes'")
		if found := w.look(); has(found, "rules", Action, "") {
			t.Errorf("%s: it is at work, and found: %+v", state, found)
		}
		w.exec("update prescient.rule set updated_at = now() - interval '6 minutes'")
		if found := w.look(); !has(found, "rules", Action, want) {
			t.Errorf("%s: %+v", state, found)
		}
	}
	w.exec("update prescient.rule set state = 'applying'")
	if found := w.look(); !has(found, "rules", Action, "orders rules apply -f FILE  -- resumes it") {
		t.Errorf("%+v", found)
	}
	w.apply()
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("it is still there: %+v", found)
	}
}

func TestARuleWhoseRoleLostItsRightsIsFound(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	w := setup(t)
	pgtest.DropRoles(t, w.db, "doctor_rules")
	w.exec("create role doctor_rules; " + others + orders)
	w.apply()
	w.exec(`grant usage on schema prescient to doctor_rules;
		grant execute on all functions in schema prescient to doctor_rules;
		alter function prescient_rules.prescient_unshipped_insert() owner to doctor_rules`)
	if found := w.look(); has(found, "rules", Action, "") {
		t.Fatalf("it is there before: %+v", found)
	}
	for _, test := range []struct{ bring, mend string }{
		{"revoke execute on all functions in schema prescient from public, doctor_rules", "grant execute on all functions in schema prescient to doctor_rules"},
		{"revoke usage on schema prescient from doctor_rules", "grant usage on schema prescient to doctor_rules"},
	} {
		w.exec(test.bring)
		if found := w.look(); !has(found, "rules", Action, `rule unshipped: role doctor_rules owns its triggers' functions`) ||
			!has(found, "rules", Action, `grant prescient_rules to "doctor_rules"`) {
			t.Errorf("%s: %+v", test.bring, found)
		}
		w.exec(test.mend)
		if found := w.look(); has(found, "rules", Action, "") {
			t.Errorf("it is still there: %+v", found)
		}
	}
}

func TestARuleWhoseRoleIsGoneIsFound(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	w := setup(t)
	pgtest.DropRoles(t, w.db, "doctor_gone")
	w.exec("create role doctor_gone; " + others + orders)
	w.exec("grant usage on schema shop to doctor_gone; grant all on all tables in schema shop to doctor_gone")
	w.applyOf(strings.Replace(unshipped, "key: id,", "key: id, role: doctor_gone,", 1))
	if found := w.look(); has(found, "rules", Action, "") {
		t.Fatalf("it is there before: %+v", found)
	}
	w.exec("drop owned by doctor_gone; drop role doctor_gone")
	if found := w.look(); !has(found, "rules", Action, "rule unshipped: its checks fail: there is no role doctor_gone") {
		t.Errorf("%+v", found)
	}
}

func TestARuleWhoseRunnerLacksARightOnItsTableIsFoundWithTheGrant(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "roles are of one node")
	const schema = pgsql.Schema("doctor_reads")
	w := setup(t)
	pgtest.DropRoles(t, w.db, "doctor_reads_")
	w.Schema = schema
	if err := errors.Join(pgsql.Migrate(t.Context(), w.db, schema), pgsql.MakeRoles(t.Context(), w.db, schema)); err != nil {
		t.Fatal(err)
	}
	w.exec("create role doctor_reads_cron login password 'cron'; create role doctor_reads_report; create role doctor_reads_role; " + others + orders)
	w.exec("grant doctor_reads_runner to doctor_reads_cron; grant doctor_reads_reader to doctor_reads_report")
	w.applyOf(unshipped)
	w.DB = open(t, w.url, pgsql.Param("role", "doctor_reads_report"))
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("the login runs no slots: %+v", found)
	}
	cron, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	cron.User = url.UserPassword("doctor_reads_cron", "cron")
	w.DB = open(t, cron.String())
	for _, test := range []struct{ what, do, mend string }{
		{
			"rule unshipped: its checks fail as doctor_reads_cron: permission denied for schema shop",
			"grant usage on schema shop to doctor_reads_cron; grant select on shop.orders to doctor_reads_cron",
			"grant usage on schema shop to doctor_reads_cron",
		},
		{
			"rule unshipped: its checks fail as doctor_reads_cron: permission denied for table ",
			"grant select on shop.orders to doctor_reads_cron", "grant select on shop.orders to doctor_reads_cron",
		},
		{
			"permission denied for table payment", "grant doctor_reads_cron the right", "grant select on shop.payment to doctor_reads_cron",
		},
		{
			"step late: permission denied for table escalation", "grant doctor_reads_cron the right",
			"grant insert on shop.escalation to doctor_reads_cron",
		},
	} {
		found := w.look()
		if !has(found, "rules", Action, test.what) || !has(found, "rules", Action, test.do) {
			t.Fatalf("%s do: %s: %+v", test.what, test.do, found)
		}
		w.exec(test.mend)
	}
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("the runner has every right: %+v", found)
	}
	w.exec("grant usage on schema shop to doctor_reads_role; grant select on shop.orders, shop.payment to doctor_reads_role; " +
		"grant insert on shop.escalation to doctor_reads_role")
	w.applyOf(strings.Replace(unshipped, "name: unshipped", "name: unshipped, role: doctor_reads_role", 1))
	if found := w.look(); !has(found, "rules", Action, `grant "doctor_reads_role" to doctor_reads_cron`) {
		t.Errorf("the runner is no member of the rule's role: %+v", found)
	}
	w.exec("grant doctor_reads_role to doctor_reads_cron")
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("the role has every right: %+v", found)
	}
	w.exec("alter table shop.orders enable row level security")
	if found := w.look(); !has(found, "rules", Action, "would be affected by row-level security policy for table \"orders\"") ||
		!has(found, "rules", Action, `alter role "doctor_reads_role" bypassrls  -- or, if`) {
		t.Errorf("a policy may hide rows from the role: %+v", found)
	}
	w.exec(`alter table shop.orders disable row level security; alter table shop.escalation enable row level security;
		create policy all_rows on shop.escalation using (true)`)
	if found := w.look(); has(found, "rules", Action, "") {
		t.Errorf("a policy lets the role insert: %+v", found)
	}
	w.exec(`alter table shop.escalation disable row level security`)
	w.exec("revoke select on shop.orders from doctor_reads_role")
	if found := w.look(); !has(found, "rules", Action, "grant select on shop.orders to doctor_reads_role") {
		t.Errorf("the role may not read the table: %+v", found)
	}
}
