package rulestore_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/backtest"
)

// A mistake in SQL is told as one of the file: with its line, its field, and what to write.
func TestAMistakeInSQLIsToldInTheWordsOfTheFile(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`
		create type shop.state as enum ('open', 'shipped');
		create table shop.payments (id bigint primary key, order_id bigint, paid_at timestamptz);
		create table shop.escalation (order_id bigint);
		alter table shop.orders add state shop.state, add hold_days int, add data jsonb, add "signedAt" timestamptz`)
	const (
		since = "since: placed_at"
		done  = "done: shipped_at"
		where = "where: channel <> 'test'"
		final = "{after: 4d, event: order.unshipped.final}"
	)
	for n, test := range []struct{ from, to, want string }{
		{since, "since: plced_at", "line 6: rule order.unshipped: since: table shop.orders has no column plced_at: did you mean placed_at?"},
		{since, "since: coalesce(placd_at, shipped_at)", "line 6: rule order.unshipped: since: table shop.orders has no column placd_at: did you mean placed_at?"},
		{since, "since: [placed_at,\n      shiped_at]", "line 7: rule order.unshipped: since[2]: table shop.orders has no column shiped_at: did you mean shipped_at?"},
		{since, "since: signedAt", `since: table shop.orders has no column signedAt: write '"signedAt"', because SQL reads a name without double quotes in lower case, and YAML takes the outer quotes`},
		{since, "since: coalesce(signedAt, placed_at)", `since: table shop.orders has no column signedat: did you mean "signedAt"?`},
		{final, `{after: 4d, sql: 'update shop.orders set signedAt = now() where id = $key'}`, `steps[2].sql: table shop.orders has no column signedat: write "signedAt", because SQL reads a name without double quotes in lower case`},
		{since, "since: hold_days::timestamptz", "since: a number is no instant: for seconds since 1970 write to_timestamp(x)"},
		{since, "since: placed_at, shipped_at", "since: there are several values: write a list, such as [created_at, hold_until]"},
		{since, "since: dateadd(placed_at, 3)", "since: there is no function dateadd: PostgreSQL writes a + interval '3 days'"},
		{since, "since: placed_at::datetime", "since: there is no type datetime: PostgreSQL has timestamptz, date"},
		{since, "since: coalesce(placed_at, channel)", "since: the values of COALESCE must have one type, and are of type timestamp with time zone and text: write a cast"},
		{since, "since: data->>'due'", "since: data->>'due' is of type text: want an instant of type timestamptz, timestamp or date. For a text with a time zone write (data->>'due')::timestamptz, and for one without (data->>'due')::timestamp"},
		{done, "done: channel = Closed or amount > 0", "done: there is no column closed. For a text write 'Closed'"},
		{done, "done: channel in ('a', closed)", "done: there is no column closed. For a text write 'closed'"},
		{final, `{after: 4d, sql: "update shop.orders set channel = late where id = $key"}`, "steps[2].sql: there is no column late. For a text write 'late'"},
		{done, "done: hold_days", "done: hold_days is of type integer: want a condition, or an instant of type timestamptz, timestamp or date. For a flag write hold_days = 1, for seconds since 1970 to_timestamp(hold_days)"},
		{where, "where: hold_days", "where: hold_days is of type integer: want a condition. For a flag write hold_days = 1"},
		{since, "since: placed_at + hold_days", "since: + does not go between type timestamp with time zone and type integer: for a number of days write + make_interval(days => x)"},
		{done, `done: channel = "closed"`, "line 7: rule order.unshipped: done: there is no column closed. In SQL, double quotes are for names: a text is written 'closed'"},
		{done, "done: channel ==  'closed'", "done: there is no operator == for these types: SQL compares with ="},
		{done, "done: state = 'shiped'", "done: type shop.state has no value 'shiped': it has open, shipped"},
		{done, "done: amount = 'none'", "done: 'none' is not of type numeric"},
		{done, "done: hold_days and shipped_at is not null", "done: AND takes conditions, and this one is of type integer: for a flag write x = 1, or x = 0"},
		{done, "done: channel in ('a' 'b')", "done: SQL does not allow 'b' after channel in ('a'"},
		{done, "done: shipped_at is not null or", "done: a value or a condition is missing at the end"},
		{done, "done: exists (select from shop.payment p where p.order_id = orders.id)", "done: there is no table shop.payment: did you mean shop.payments?"},
		{done, "done: exists (select from payments p where p.order_id = orders.id)", "done: there is no table payments: write its schema, shop.payments"},
		{done, "done: exists (select from shop.payments p where p.ordr_id = orders.id)", "done: there is no column p.ordr_id: did you mean p.order_id?"},
		{done, "done: exists (select from shop.payments p where p.order_id = o.id)", "done: there is no table or alias o here: the row is called orders, and another table is looked up in a subquery"},
		{done, "done: (select p.id, p.paid_at from shop.payments p where p.order_id = orders.id)", "done: the subquery has several columns: select one value"},
		{where, "where: channel = 3", "line 8: rule order.unshipped: where: = does not go between type text and type integer: write a cast, such as x::integer"},
		{where, "where: ifnull(channel, 'web') <> 'test'", "where: there is no function ifnull: PostgreSQL writes coalesce(a, b)"},
		{where, "where: days_between(channel, 'web') > 3", "where: there is no function days_between for values of type text, text"},
		{where, "where: payments.id > 0", "where: there is no table or alias payments here: the row is called orders, and another table is looked up in a subquery"},
		{"{after: 2d,", "{after: {interval: hold_days::interval},", "line 10: rule order.unshipped: steps[1].after: a number is no interval: write make_interval(days => x)"},
		{final, `{after: 4d, sql: "insert into shop.escalations (order_id) values ($key)"}`, "line 11: rule order.unshipped: steps[2].sql: there is no table shop.escalations"},
		{final, `{after: 4d, sql: "insert into shop.escalation (orderid) values ($key)"}`, "steps[2].sql: table escalation has no column orderid"},
		{final, `{after: 4d, sql: "insert into shop.escalation values ($since)"}`, "steps[2].sql: column order_id is of type bigint, and its new value of type timestamp with time zone"},
		{final, `{after: 4d, sql: "insert into shop.escalation values ($key) on conflict ignore"}`, "steps[2].sql: SQL does not allow ignore after ... values ($key) on conflict"},
		{final, `{after: 4d, sql: "update shop.orders set channel = 'x'; commit"}`, "steps[2].sql: there are several statements: a step has one"},
	} {
		if testing.Short() && n%4 > 0 {
			continue
		}
		file := strings.Replace(unshipped, test.from, test.to, 1)
		if file == unshipped {
			t.Fatalf("%s: nothing is replaced", test.from)
		}
		_, err := s.store.Plan(t.Context(), parse(t, file), nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || len(problems(err)) == 0 || strings.Contains(err.Error(), "prescient") {
			t.Errorf("%s:\n got %v\nwant %s", test.to, err, test.want)
		}
	}
}

// The values of rows are at fault, not the text: a plan reads all rows that there are.
func TestARowThatCannotBeComputedIsNamedWithItsExpression(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`
		create table shop.payments (id bigint primary key, order_id bigint, paid_at timestamptz);
		insert into shop.payments select n, 77, now() from generate_series(1, 2) as n;
		alter table shop.orders add hold_days int not null default 1;
		insert into shop.orders (id, placed_at, note, hold_days)
		select n, now(), case when n = 77 then 'soon' else '2030-01-01' end, case when n = 77 then 0 else 1 end from generate_series(1, 250) as n`)
	faults := map[string]struct{ to, want string }{
		"since: placed_at":         {"since: [placed_at, note::timestamptz]", "line 6: rule order.unshipped: since[2]: it cannot be computed for row 77: 'soon' is not of type timestamp with time zone"},
		"done: shipped_at":         {"done: (select p.paid_at from shop.payments p where p.order_id = orders.id)", "line 7: rule order.unshipped: done: it cannot be computed for row 77: the subquery finds several rows"},
		"where: channel <> 'test'": {"where: 1 / hold_days > 0 and channel <> 'test'", "line 8: rule order.unshipped: where: it cannot be computed for row 77: it divides by zero"},
		"key: id":                  {"key: id\n    timezone: {name: (3 / hold_days)::text}", "line 6: rule order.unshipped: timezone: it cannot be computed for row 77: it divides by zero"},
		"after: 2d, ":              {`after: 2d, every: {interval: "make_interval(days => 3 / hold_days)"}, `, "line 10: rule order.unshipped: steps[1].every: it cannot be computed for row 77: it divides by zero"},
		"after: 2d,":               {`after: 2d, every: 1d, times: {count: "3 / hold_days"},`, "line 10: rule order.unshipped: steps[1].times: it cannot be computed for row 77: it divides by zero"},
		"{after: 2d,":              {`{after: {interval: "make_interval(days => 3 / hold_days)"},`, "line 10: rule order.unshipped: steps[1].after: it cannot be computed for row 77: it divides by zero"},
	}
	for n, from := range slices.Sorted(maps.Keys(faults)) {
		if testing.Short() && n%3 > 0 {
			continue
		}
		test := faults[from]
		file := parse(t, strings.Replace(unshipped, from, test.to, 1))
		_, planned := s.store.Plan(t.Context(), file, nil)
		_, applied := s.store.Apply(t.Context(), file, nil)
		understood, err := s.store.Understand(t.Context(), file, file.Rules[0])
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		_, err = backtest.Run(t.Context(), s.db, understood, backtest.Config{From: now.AddDate(0, 0, -1), To: now.AddDate(0, 0, 1), Now: now})
		for what, err := range map[string]error{"plan": planned, "apply": applied, "test": s.store.Explain(t.Context(), understood, err)} {
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s, %s:\n got %v\nwant %s", what, test.to, err, test.want)
			}
		}
		s.exec("drop schema if exists prescient_rules cascade; delete from prescient.future_job; delete from prescient.rule")
	}
}
