package rulestore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// problems returns the mistakes that an error joins.
func problems(err error) (list []*rule.Problem) {
	if p, ok := errors.AsType[*rule.Problem](err); ok {
		list = append(list, p)
	}
	return list
}

func TestPlanRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := newShop(t, func(cfg *rulestore.Config) {
		cfg.Reserved = func(name string) bool { return name == "order.known" }
	})
	s.exec(`
		create view shop.seen as select * from shop.orders;
		create table shop.old (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text);
		create table shop.parent (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text);
		create table shop.child () inherits (shop.parent);
		create table shop.parts (id bigint primary key, placed_at timestamptz, shipped_at timestamptz, channel text) partition by range (id);
		create table shop.part partition of shop.parts default;
		alter table shop.orders add local_at timestamp, add maybe bigint unique, add code text unique, add day date not null unique, add moment real not null unique, add ready boolean;
		create unique index on shop.orders (code) where channel = 'web';
		create function shop.touch(text) returns boolean language sql as $$ select true $$;
		create role catalog_owner;
		grant usage, create on schema shop to catalog_owner;
		create function shop.trusted(text) returns boolean language sql immutable as $$ select true $$;
		alter function shop.trusted(text) owner to catalog_owner;
		create type shop.kind as enum ('a');
		create type public.word;
		create function public.word_in(cstring) returns public.word language internal immutable strict as 'textin';
		create function public.word_out(public.word) returns cstring language internal immutable strict as 'textout';
		create type public.word (input = public.word_in, output = public.word_out, like = text);
		create function public.alike(public.word, public.word) returns boolean language internal immutable strict as 'texteq';
		create operator public.= (function = public.alike, leftarg = public.word, rightarg = public.word);
		alter table shop.orders add word public.word;
		alter table shop.parts add word public.word;
		create type shop.pair as range (subtype = int);
		create table shop.days (id bigint, placed_at timestamptz, shipped_at timestamptz, channel text, primary key (id, placed_at)) partition by range (placed_at);
		alter table shop.orders add kind shop.kind not null unique, add pair shop.pair not null unique`)
	refused := map[string]string{
		"table: shop.orders -> table: shop.missing":                                           "line 4: rule order.unshipped: table: there is no table shop.missing in this database",
		"table: shop.orders -> table: public.orders":                                          "line 4: rule order.unshipped: table: there is no table public.orders in this database: did you mean shop.orders?",
		"table: shop.orders -> table: shop.seen":                                              "line 4: rule order.unshipped: table: shop.seen is not a table",
		"table: shop.orders -> table: shop.old":                                               "line 4: rule order.unshipped: table: shop.old cannot have a rule, because PostgreSQL gives the name old to rows of triggers: rename the table",
		"table: shop.orders -> table: shop.parent":                                            "line 4: rule order.unshipped: table: shop.parent has tables that inherit",
		"table: shop.orders -> table: shop.part":                                              "line 4: rule order.unshipped: table: shop.part is a partition",
		"key: id -> key: amount":                                                              "line 5: rule order.unshipped: key: column amount has no primary key",
		"key: id -> key: id, channel":                                                         `line 5: rule order.unshipped: key: "id, channel" is no column. Write several columns as a list: key: [id, channel]`,
		"key: id -> key: maybe":                                                               "line 5: rule order.unshipped: key: column maybe may be null",
		"key: id -> key: moment":                                                              "line 5: rule order.unshipped: key: the text of type real depends",
		"key: id -> key: kind":                                                                "line 5: rule order.unshipped: key: type shop.kind is an enum, whose values may get other names",
		"key: id -> key: pair":                                                                "line 5: rule order.unshipped: key: type shop.pair is not one of PostgreSQL's own",
		"table: shop.orders -> table: shop.days":                                              "line 5: rule order.unshipped: key: column id has no primary key and no unique constraint of its own: write key: [id, placed_at], by which table shop.days identifies a row",
		"key: id -> key: number":                                                              "line 5: rule order.unshipped: key: table shop.orders has no column number: it has id, channel, amount, ",
		"since: placed_at -> since: place_at":                                                 "line 6: rule order.unshipped: since: table shop.orders has no column place_at: did you mean placed_at?",
		"since: placed_at -> since: channel":                                                  "line 6: rule order.unshipped: since: channel is of type text: want an instant of type timestamptz, timestamp or date. For a text with a time zone write (channel)::timestamptz, and for one without (channel)::timestamp",
		"since: placed_at -> since: amount":                                                   "line 6: rule order.unshipped: since: amount is of type numeric: want an instant",
		"since: placed_at -> since: max(placed_at)":                                           "line 6: rule order.unshipped: since: max(placed_at) is about several rows",
		"done: shipped_at -> done: amount":                                                    "line 7: rule order.unshipped: done: amount is of type numeric: want a condition, or an instant",
		"after: 2d -> after: {interval: amount}":                                              "steps[1].after: amount is of type numeric: want an interval, such as make_interval(days => hold_days). For a number of days write make_interval(days => amount)",
		"done: shipped_at -> done: shipped > 1":                                               `line 7: rule order.unshipped: done: table shop.orders has no column shipped: did you mean shipped_at?`,
		"done: shipped_at -> done: shiped_at":                                                 `line 7: rule order.unshipped: done: table shop.orders has no column shiped_at: did you mean shipped_at?`,
		"channel <> 'test' -> channel == 'web'":                                               "line 8: rule order.unshipped: where: there is no operator == for these types: SQL compares with =",
		"channel <> 'test' -> ready && ready":                                                 "line 8: rule order.unshipped: where: there is no operator && for these types: SQL writes and",
		"channel <> 'test' -> channel":                                                        "line 8: rule order.unshipped: where: channel is of type text: want a condition",
		"channel <> 'test' -> shop.touch(channel)":                                            "line 8: rule order.unshipped: where: function shop.touch(text) is volatile",
		"channel <> 'test' -> shop.trusted(channel)":                                          "line 8: rule order.unshipped: where: function shop.trusted(text) belongs to catalog_owner",
		"channel <> 'test' -> channel = any (select no from shop.orders)":                     `line 8: rule order.unshipped: where: there is no column no`,
		"channel <> 'test' -> day < 'today'":                                                  "where: 'today' is an instant of now",
		"channel <> 'test' -> local_at < ' Tomorrow 12:00 '":                                  "where: ' Tomorrow 12:00 ' is an instant of now",
		"channel <> 'test' -> placed_at < cast('now' as timestamptz)":                         "where: 'now' is an instant of now",
		"channel <> 'test' -> placed_at < 'now'::text::timestamptz":                           "where: 'now' is an instant of now",
		"channel <> 'test' -> day in ($$yesterday$$, '2026-01-01')":                           "where: 'yesterday' is an instant of now",
		"channel <> 'test' -> word is distinct from 'x'":                                      "where: is distinct from, nullif, case x when y, in (select ...) and join using cannot say that they compare with operator = of type public.word",
		"channel <> 'test' -> nullif(word, 'x') = 'y'":                                        "cannot say that they compare with operator = of type public.word",
		"channel <> 'test' -> case word when 'x' then true end":                               "cannot say that they compare with operator = of type public.word",
		"channel <> 'test' -> word in (select o.word from shop.parts o)":                      "cannot say that they compare with operator = of type public.word",
		"done: shipped_at -> done: exists (select from shop.orders where maybe = orders.id)":  "done: the subquery reads table shop.orders itself, and no column of the row: give the other rows a name, such as from shop.orders other where other.id = orders.id",
		"since: placed_at -> since: (select max(placed_at) from shop.orders)":                 "since: the subquery reads table shop.orders itself",
		"channel <> 'test' -> channel <":                                                      "line 8: rule order.unshipped: where: a value or a condition is missing at the end",
		"name: order.unshipped -> name: order.known":                                          "line 3: rule order.known: name: a job of this binary has the name",
		"steps: -> role: nobody_known\n    steps:":                                            "role: there is no role nobody_known",
		"steps: -> role: catalog_owner\n    steps:":                                           "role: role catalog_owner may not read id, channel, placed_at, shipped_at of shop.orders",
		"steps: -> payload: [id, data->>'at']\n    steps:":                                    `payload[2]: "data->>'at'" is not the name of a column: give an expression a name, such as {title: "(select ...)"}`,
		"after: 2d -> after: {interval: channel}":                                             "steps[1].after: channel is of type text: want an interval, such as make_interval(days => hold_days). For a text write (channel)::interval",
		"after: 2d -> after: 2d, every: {interval: amount}":                                   "steps[1].every: amount is of type numeric: want an interval, such as make_interval(days => hold_days). For a number of days write make_interval(days => amount)",
		"after: 2d -> after: 2d, every: 1d, times: {count: amount}":                           "steps[1].times: amount is of type numeric: want a whole number. For a whole number write (amount)::bigint",
		"after: 2d -> after: 2d, every: 1d, times: {count: channel}":                          "steps[1].times: channel is of type text: want a whole number. For a whole number write (channel)::bigint",
		"after: 2d -> after: 2d, every: 1d, times: {count: amout}":                            "steps[1].times: table shop.orders has no column amout: did you mean amount?",
		"steps: -> timezone: {name: amount}\n    steps:":                                      "timezone: amount is of type numeric: want a text, the name of a time zone. Write (amount)::text",
		"steps: -> timezone: {name: kind}\n    steps:":                                        "timezone: kind is of type shop.kind: want a text, the name of a time zone. Write (kind)::text",
		"steps: -> timezone: {name: chanel}\n    steps:":                                      "timezone: table shop.orders has no column chanel: did you mean channel?",
		"steps: -> timezone: CET\n    steps:":                                                 "timezone: CET is an abbreviation for the server, whose clocks never change: write a place, such as Europe/Berlin",
		"steps: -> timezone: WET\n    steps:":                                                 "timezone: WET is an abbreviation for the server",
		"steps: -> payload: [id, {sum: amount * 2, at: data->>'at'}]\n    steps:":             "line 9: rule order.unshipped: payload[2].at: table shop.orders has no column data",
		"steps: -> payload: [{sum: sum(amount)}]\n    steps:":                                 "payload[1].sum: ",
		"steps: -> payload: [{other: (select id from shop.orders where id = 1)}]\n    steps:": "payload[1].other: the subquery reads table shop.orders itself",
		"steps: -> payload: [id, number]\n    steps:":                                         "payload[2]: table shop.orders has no column number",
	}
	for n, change := range slices.Sorted(maps.Keys(refused)) {
		if testing.Short() && n%4 > 0 {
			continue
		}
		want := refused[change]
		from, to, _ := strings.Cut(change, " -> ")
		file := strings.Replace(unshipped, from, to, 1)
		if file == unshipped {
			t.Fatalf("%s: nothing is replaced", change)
		}
		_, err := s.store.Plan(t.Context(), parse(t, file), nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(problems(err)) == 0 {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
	}
	s.exec("drop function shop.trusted(text); drop owned by catalog_owner; drop role catalog_owner")
}

// PostgreSQL has virtual columns since version 18, and hands null for them to triggers.
func TestPlanRefusesAVirtualColumn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	if s.count("select current_setting('server_version_num')::int") < 180000 {
		t.Skip("this PostgreSQL has no virtual columns")
	}
	s.exec("alter table shop.orders add due bigint generated always as (amount * 2) virtual")
	const want = ": column due is virtual, and triggers do not see its value: write its expression instead, (amount * (2)::numeric), or make it"
	for field, file := range map[string]string{
		"since":          strings.Replace(unshipped, "since: placed_at", "since: to_timestamp(due)", 1),
		"where":          strings.Replace(unshipped, "channel <> 'test'", "due > 0", 1),
		"done":           strings.Replace(unshipped, "done: shipped_at", "done: exists (select from shop.orders o where o.amount = orders.due)", 1),
		"steps[1].after": strings.Replace(unshipped, "after: 2d", "after: {interval: make_interval(days => due::int)}", 1),
	} {
		_, err := s.store.Plan(t.Context(), parse(t, file), nil)
		if err == nil || !strings.Contains(err.Error(), field+want) || len(problems(err)) != 1 {
			t.Errorf("error %v, want %s", err, field+want)
		}
	}
	s.apply(with(unshipped, "payload: [due]"))
}

func TestPlanWarnsOfALookupWithoutAnIndex(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`create table shop.payments (id bigint primary key, order_id bigint);
		create role lookup_reader;
		grant usage on schema shop to lookup_reader;
		grant select on shop.orders to lookup_reader`)
	const paid = "done: exists (select from shop.payments p where p.order_id = orders.id)"
	file := strings.Replace(unshipped, "done: shipped_at", paid, 1)
	want := []string{`each check reads all of table shop.payments, which has no index on order_id`}
	if plan := s.plan(file); !slices.Equal(plan.Rules[0].Warnings, want) {
		t.Errorf("warnings %q, want %q", plan.Rules[0].Warnings, want)
	}
	again := strings.Replace(unshipped, "since: placed_at",
		`since: [placed_at, "(select to_timestamp(max(p.id + 0)) from shop.payments p where p.order_id = orders.id)"]`, 1)
	if plan := s.plan(again); !slices.Equal(plan.Rules[0].Warnings, want) {
		t.Errorf("a lookup that the query has several times: warnings %q, want %q", plan.Rules[0].Warnings, want)
	}
	s.exec("create index on shop.payments (order_id)")
	if plan := s.plan(file); len(plan.Rules[0].Warnings) > 0 {
		t.Errorf("warnings %q", plan.Rules[0].Warnings)
	}
	_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(file, "steps:", "role: lookup_reader\n    steps:", 1)), nil)
	if err == nil || !strings.Contains(err.Error(), "role: role lookup_reader may not look up what the rule does: permission denied for table payments") {
		t.Errorf("error %v", err)
	}
	s.exec("drop owned by lookup_reader; drop role lookup_reader")
}

func TestPlanWarnsOfAConditionThatIsNeverTrue(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add state text check (state in ('open', 'void'))")
	for change, want := range map[string][]string{
		"done: shipped_at -> done: [shipped_at, note != null]": {
			"line 7: done[2]: note != null is never true: nothing equals null. Write is null, or is not null",
		},
		"done: shipped_at -> done: shipped_at is not null or note = null": {
			"line 7: done: note = null is never true: nothing equals null. Write is null, or is not null",
		},
		"done: shipped_at -> done: state = 'shut'":     {"line 7: done: state = 'shut' is never true"},
		"channel <> 'test' -> amount > 3 and 1 = 2":    {"line 8: where: 1 = 2 is never true"},
		"done: shipped_at -> done: \"false\"":          nil,
		"channel <> 'test' -> note is null":            nil,
		"done: shipped_at -> done: state = 'void'":     nil,
		"done: shipped_at -> done: note in ('= null')": nil,
	} {
		from, to, _ := strings.Cut(change, " -> ")
		if plan := s.plan(strings.Replace(unshipped, from, to, 1)); !slices.Equal(plan.Rules[0].Warnings, want) {
			t.Errorf("%s: warnings %q, want %q", change, plan.Rules[0].Warnings, want)
		}
	}
}

// By default a value without a time zone counts by the clocks of UTC. Working hours of another zone are then off.
func TestPlanWarnsOfAnInstantThatIsReadByOtherClocksThanThoseOfTheCalendar(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add opened_at timestamp, add due_on date")
	const file = `
calendars: {office: {timezone: %s, hours: "mon-fri 09:00-17:00"}}
rules:
  - name: order.idle
    table: shop.orders
    key: id
    since: %s
    done: shipped_at
    %s
    steps: [{after: 4 business hours, calendar: office, event: order.idle}]
`
	const warning = "line 7: since: %s has no time zone, so it counts by the clocks of UTC, but those of calendar office are " +
		"of Europe/Berlin. Write timezone: Europe/Berlin or timezone: UTC"
	for _, test := range []struct {
		calendar, since, zone string
		warns                 bool
	}{
		{"Europe/Berlin", "opened_at", "", true},
		{"Europe/Berlin", "due_on", "", true},
		{"Europe/Berlin", "opened_at", "timezone: Europe/Berlin", false},
		{"Europe/Berlin", "opened_at", "timezone: UTC", false},
		{"Europe/Berlin", "placed_at", "", false},
		{"UTC", "opened_at", "", false},
	} {
		var want []string
		if test.warns {
			want = []string{fmt.Sprintf(warning, test.since)}
		}
		warnings := s.plan(fmt.Sprintf(file, test.calendar, test.since, test.zone)).Rules[0].Warnings
		for i, w := range warnings {
			warnings[i] = strings.Replace(w, "orders.", "", 1) // which PostgreSQL 15 writes, and later ones do not
		}
		if !slices.Equal(warnings, want) {
			t.Errorf("%v: warnings %q, want %q", test, warnings, want)
		}
	}
}

// The server casts a value without a zone by the zone of its session, which is UTC for all rules.
func TestPlanWarnsOfAnExpressionThatReadsAValueByOtherClocksThanThoseOfTheRule(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("alter table shop.orders add opened_at timestamp(3), add due_on date, add data json; create table shop.holiday (day date)")
	const file = `
rules:
  - name: order.idle
    table: shop.orders
    key: id
    since: %s
    done: %s
    %s
    steps: [{after: 4h, event: order.idle}]
`
	const (
		place = "timezone: America/New_York"
		since = "line 6: since: coalesce(due_on, placed_at) reads due_on by the clocks of UTC, and not by those of timezone: " +
			"write due_on::timestamp at time zone 'America/New_York'"
	)
	for _, test := range []struct{ since, done, rest, want string }{
		{"coalesce(due_on, placed_at)", "shipped_at", place, since},
		{`[placed_at, "greatest(placed_at, opened_at)"]`, "shipped_at", place, "line 6: since[2]: greatest(placed_at, opened_at) reads opened_at " +
			"by the clocks of UTC, and not by those of timezone: write opened_at::timestamp at time zone 'America/New_York'"},
		{"opened_at::timestamptz", "shipped_at", place, "line 6: since: opened_at::timestamptz reads opened_at by the clocks of UTC, and not by " +
			"those of timezone: write opened_at::timestamp at time zone 'America/New_York'"},
		{"placed_at", "shipped_at >= due_on", place, "line 7: done: shipped_at >= due_on reads due_on by the clocks of UTC, and not by those of " +
			"timezone: write due_on::timestamp at time zone 'America/New_York'"},
		{"placed_at", "shipped_at", place + `, where: "exists (select from shop.holiday h where h.day > orders.placed_at)"`, "line 9: where: exists (select " +
			"from shop.holiday h where h.day > orders.placed_at) reads a date by the clocks of UTC, and not by those of timezone: write " +
			"(...)::timestamp at time zone 'America/New_York'"},
		{"placed_at::date", "shipped_at", place, "line 6: since: placed_at::date makes a date of an instant by the clocks of UTC, and not by " +
			"those of timezone: write (... at time zone 'America/New_York')::date"},

		{"coalesce(due_on, placed_at)", "shipped_at", "", ""},
		{"coalesce(due_on, placed_at)", "shipped_at", "timezone: UTC", ""},
		{"[due_on, placed_at, opened_at]", "shipped_at", place, ""},
		{"coalesce(due_on::timestamp at time zone 'America/New_York', placed_at)", "opened_at > due_on", place, ""},
		{"coalesce(due_on, opened_at)", "shipped_at > '2026-01-01' and placed_at + interval '1 d' > shipped_at", place, ""},
		{"(data->>'due')::timestamptz", "shipped_at", place, ""},
	} {
		fields := strings.ReplaceAll(test.rest, ", ", "\n    ")
		plan := s.plan(fmt.Sprintf(file, test.since, test.done, fields))
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if got := slices.DeleteFunc(plan.Rules[0].Warnings, func(w string) bool { return !strings.Contains(w, "clocks") }); !slices.Equal(got, want) {
			t.Errorf("%v: warnings %q, want %q", test, got, want)
		}
	}
	_, err := s.store.Plan(t.Context(), parse(t, fmt.Sprintf(file, "coalesce(due_on, placed_at)", "shipped_at", "timezone: {name: channel}")), nil)
	const refused = "line 6: rule order.idle: since: coalesce(due_on, placed_at) reads due_on by the clocks of UTC, and each row has a zone of its own: " +
		"write due_on::timestamp at time zone channel"
	if err == nil || err.Error() != refused {
		t.Errorf("%v, want %s", err, refused)
	}
}

func TestPlanWarnsOfAStatementThatMovesItsOwnClockOn(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`alter table shop.orders add "nextNag" timestamptz, add period interval;
		create table shop.visit (placed_at timestamptz, period interval)`)
	const file = `
rules:
  - name: order.nag
    table: shop.orders
    key: id
    since: %s
    done: shipped_at
    steps: [{after: 0s, sql: %q}]
`
	const warning = `line 8: steps[1].sql: after an outage, the step fires in each slot until %s has caught up. ` +
		`To fire once, count from now: %[1]s = greatest(%[1]s, $now) + ...`
	for statement, column := range map[string]string{
		"update shop.orders set placed_at = placed_at + period where id = $key":                              "placed_at",
		"update shop.orders o set note = 'x', placed_at = o.placed_at + interval '1 d' where id = $key":      "placed_at",
		"update only shop.orders set placed_at=$since + period where id = $key":                              "placed_at",
		"update shop.orders set placed_at = greatest(placed_at, $now) + period where id = $key":              "",
		"update shop.orders set placed_at = placed_at + period * ceil(1.0) where id = $key and $now > now()": "",
		"update shop.orders set amount = amount + 1 where id = $key":                                         "",
		"update shop.visit set placed_at = placed_at + period":                                               "",
	} {
		var want []string
		if column != "" {
			want = []string{fmt.Sprintf(warning, column)}
		}
		if plan := s.plan(fmt.Sprintf(file, "placed_at", statement)); !slices.Equal(plan.Rules[0].Warnings, want) {
			t.Errorf("%s: warnings %q, want %q", statement, plan.Rules[0].Warnings, want)
		}
	}
	statement := `update shop.orders set "nextNag" = "nextNag" + period where id = $key`
	want := []string{fmt.Sprintf(warning, `"nextNag"`)}
	if plan := s.plan(fmt.Sprintf(file, `'"nextNag"'`, statement)); !slices.Equal(plan.Rules[0].Warnings, want) {
		t.Errorf("%s: warnings %q, want %q", statement, plan.Rules[0].Warnings, want)
	}
}

func TestPlanRefusesAStatementThatCannotRun(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`
		create table shop.escalation (order_id bigint, at timestamptz, step text, payload jsonb);
		create function shop.late(bigint) returns int language sql as $$ select 1 $$;
		create procedure shop.escalate(bigint) language sql as $$ insert into shop.escalation values ($1) $$;
		create role statement_reader;
		grant usage on schema shop to statement_reader;
		grant select on shop.orders, shop.escalation to statement_reader`)
	for statement, want := range map[string]string{
		"insert into shop.escalaton values ($key)":                           `there is no table shop.escalaton`,
		"insrt into shop.escalation values ($key)":                           `SQL cannot begin with insrt`,
		"insert into shop.escalation (orderid) values ($key)":                `table escalation has no column orderid`,
		"insert into shop.escalation (order_id) values ($since)":             `column order_id is of type bigint, and its new value of type timestamp with time zone`,
		"insert into shop.escalation values ($key); delete from shop.orders": `there are several statements: a step has one`,
		"select late($key)": "there is no function late without its schema: write shop.late",
		"update orders set channel = 'late' where id = $key":                 `there is no table orders: write its schema, shop.orders`,
		"insert into shop.escalation values ($key, $since, $step, $payload)": "",
		"update shop.orders set channel = 'late' where id = $key":            "",
		"call shop.escalate($key)":                                           "",
		"notify late":                                                        "",
		"select pg_notify('late', $key::text)":                               "",
	} {
		step := fmt.Sprintf("{after: 4d, sql: %q}", statement)
		file := strings.Replace(unshipped, "{after: 4d, event: order.unshipped.final}", step, 1)
		for _, role := range []string{"", "    role: statement_reader\n"} {
			_, err := s.store.Plan(t.Context(), parse(t, file+role), nil)
			if want == "" {
				if err != nil {
					t.Errorf("%s: error %v", statement, err)
				}
				continue
			}
			want := "line 11: rule order.unshipped: steps[2].sql: " + want
			if err == nil || !strings.Contains(err.Error(), want) || len(problems(err)) != 1 {
				t.Errorf("%s: error %v, want %s", statement, err, want)
			}
		}
	}
	if n := s.count("select count(*) from shop.escalation"); n != 0 {
		t.Errorf("%d statements were executed", n)
	}
	s.exec("drop owned by statement_reader; drop role statement_reader")
}

func TestPlanRefusesASubqueryThatNamesAColumnOfItsOwnInsteadOfTheRows(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("create table shop.payments (id bigint primary key, order_id bigint, channel varchar(9), paid_at timestamptz)")
	for condition, want := range map[string]string{
		"p.order_id = id":                                            "because id is a column of its own tables: write orders.id",
		"p.order_id = orders.id":                                     "",
		"p.order_id = orders.id and p.channel = channel":             "compares channel with itself, because channel is a column of its own tables: write orders.channel",
		"p.order_id = orders.id and (p.id = 0 or channel=p.channel)": "compares channel with itself",
		"p.order_id = orders.id and p.channel = orders.channel":      "",
		"p.order_id = orders.id and channel = 'web' and id > 0":      "",
		"p.order_id = orders.id and p.order_id = p.id":               "",
	} {
		rules := strings.Replace(unshipped, "done: shipped_at",
			"done: (select min(p.paid_at) from shop.payments p where "+condition+")", 1)
		_, err := s.store.Plan(t.Context(), parse(t, rules), nil)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", condition, err)
		}
	}
	// Each subquery counts by itself: what the rest of the expression reads says nothing.
	const paid = "(select max(p.paid_at) from shop.payments p where p.order_id = %s)"
	for since, want := range map[string]string{
		fmt.Sprintf(paid, "id") + ", placed_at":                                                            "because id is a column of its own tables: write orders.id",
		fmt.Sprintf(paid, "orders.id") + ", " + fmt.Sprintf(paid, "id"):                                    "because id is a column of its own tables: write orders.id",
		fmt.Sprintf(paid, "orders.id") + ", placed_at":                                                     "",
		fmt.Sprintf(paid, "amount") + ", placed_at":                                                        "",
		fmt.Sprintf(paid, "0") + ", placed_at":                                                             "",
		fmt.Sprintf(paid, "id and p.channel <> orders.note") + ", placed_at":                               "", // it is not found out
		"(select max(p.paid_at) as placed_at from shop.payments p), placed_at":                             "",
		"(select max(p.paid_at) placed_at from shop.payments p), placed_at":                                "",
		"(select max(p.paid_at) from shop.payments p join shop.payments q using (id, channel)), placed_at": "",
	} {
		rules := strings.Replace(unshipped, "since: placed_at", "since: coalesce("+since+")", 1)
		_, err := s.store.Plan(t.Context(), parse(t, rules), nil)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", since, err)
		}
	}
}

func TestABooleanColumnIsACondition(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add ready boolean")
	s.apply(strings.Replace(unshipped, "done: shipped_at", "done: ready", 1))
	s.exec(`insert into shop.orders (id, placed_at, ready) values (1, ` + at("04 12:00") + `, null), (2, ` + at("04 12:00") + `, false), (3, ` + at("04 12:00") + `, true)`)
	s.wants("after the insert", "1 at 03-06 12:00, 2 at 03-06 12:00")
}

func TestTheTableAndTheKeyOfARuleStay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec("create table shop.parcels (like shop.orders including all); alter table shop.orders add number bigint not null unique")
	s.apply(unshipped)
	for change, want := range map[string]string{
		"table: shop.orders -> table: shop.parcels": "the rule is about table shop.orders",
		"key: id -> key: number":                    `have the key "id"`,
		"key: id -> key: id\n    entity: parcel":    "of entity orders",
	} {
		from, to, _ := strings.Cut(change, " -> ")
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(unshipped, from, to, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
	}
}

func TestTheStatementsOfAMigrationAreThoseOfAnApply(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	text, err := s.store.SQL(t.Context(), parse(t, unshipped))
	if err != nil {
		t.Fatal(err)
	}
	s.exec(text)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	if p := s.apply(unshipped).Rules[0]; len(p.Triggers) != 0 || p.Action != rulestore.Create {
		t.Errorf("planned %+v", p)
	}
	s.wants("after the apply", "1 at 03-06 12:00")
}

func TestATriggerThatIsMissingIsCreatedAgainAndItsRowsWait(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("alter table shop.orders disable trigger user")
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	if p := s.plan(unshipped).Rules[0]; p.Action != rulestore.Change || len(p.Triggers) != 3 || p.Begin != 1 {
		t.Errorf("planned %+v", p)
	}
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("04 12:00") + ")")
	s.wants("after the apply, which enables them", "1 at 03-06 12:00, 2 at 03-06 12:00")
	s.exec("drop trigger " + s.insertTrigger() + " on shop.orders")
	if p := s.apply(unshipped).Rules[0]; p.Action != rulestore.Change || len(p.Triggers) != 1 {
		t.Errorf("applied %+v", p)
	}
}

func (s *shop) insertTrigger() (name string) {
	s.t.Helper()
	if err := s.db.GetContext(s.t.Context(), &name, "select tgname from pg_trigger where tgname like 'prescient%insert'"); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// Settings of a login or a database change how the server writes names, and reads texts.
func TestARuleIsTheSameWithAnySettings(t *testing.T) {
	t.Parallel()
	s := newShopOn(t, pgtest.URL(t))
	file := with(strings.Replace(unshipped, "channel <> 'test'", `channel <> 'te\st'`, 1), `overdue: skip`)
	s.exec(`create table shop."Odd" (id bigint primary key, channel text, placed_at timestamptz, shipped_at timestamptz)`)
	odd := strings.NewReplacer("shop.orders", `shop."Odd"`, "order.unshipped", "odd.unshipped").Replace(strings.TrimPrefix(file, "\nrules:\n"))
	s.exec(payments + `; create table shop."Odd Payment" (order_id int)`)
	file += odd + strings.NewReplacer("\nrules:\n", "", "also: {table: shop.payment, key: order_id}",
		`also: [{table: shop.payment, key: order_id}, {table: 'shop."Odd Payment"', key: order_id}]`).Replace(unpaid)
	s.apply(file)
	s.db.SetMaxOpenConns(1)
	settings := map[string]string{
		"quote_all_identifiers": "on", "standard_conforming_strings": "off", "search_path": "", "intervalstyle": "iso_8601",
		"extra_float_digits": "-15", "bytea_output": "escape", "timezone": "Asia/Tokyo", "xmloption": "document", "backslash_quote": "off",
	}
	if pgtest.OnCitus() { // which sends a worker texts as the caller's session would read them
		delete(settings, "standard_conforming_strings")
	}
	for n, setting := range slices.Sorted(maps.Keys(settings)) {
		if testing.Short() && n%3 > 0 {
			continue
		}
		value := settings[setting]
		s.db.MustExec("set " + setting + " = '" + value + "'")
		if plan := s.plan(file); plan.Changes() {
			t.Errorf("with %s = %q: %+v", setting, value, plan.Rules)
		}
		if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) > 0 {
			t.Errorf("with %s = %q: %+v, %v", setting, value, faults, err)
		}
		s.apply(strings.ReplaceAll(file, "2d", "1d"))
		s.exec("insert into shop.orders (id, placed_at) values (1, now())")
		s.exec("update shop.orders set placed_at = placed_at + interval '1 hour', channel = 'app'")
		s.exec("delete from shop.orders")
		s.apply(file)
		s.db.MustExec("reset " + setting)
		if plan := s.plan(file); plan.Changes() {
			t.Errorf("applied with %s = %q: %+v", setting, value, plan.Rules)
		}
	}
}

func TestAnInstantLongAgoIsPassed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "overdue: fire"))
	for _, since := range []string{"4000-01-01 BC", "0001-12-31 23:59Z BC"} {
		s.exec("insert into shop.orders (id, placed_at) values (1, '" + since + "')")
		s.wants("before year 1", "")
		s.exec("update shop.orders set placed_at = " + at("04 12:00"))
		s.wants("with an instant", "1 at 03-06 12:00")
		s.exec("update shop.orders set placed_at = '" + since + "'")
		s.wants("before year 1 again", "")
		s.exec("delete from shop.orders")
	}
	for _, since := range []string{"0001-01-03", "1960-01-01"} {
		s.exec("insert into shop.orders (id, placed_at) values (1, '" + since + "')")
		s.wants("since "+since, "1 at 03-04 12:15 came 03-04 12:00")
		s.now = noon.Add(20 * time.Minute)
		s.exec("update shop.orders set placed_at = placed_at - interval '1 day'")
		s.wants("due, and since before "+since, "1 at 03-04 12:15 came 03-04 12:00")
		s.now = noon
		s.exec("alter table shop.orders disable trigger all; update shop.orders set placed_at = placed_at - interval '1 day'; alter table shop.orders enable trigger all; delete from prescient.future_job")
		if plan, err := s.store.Again().Apply(t.Context(), parse(t, with(unshipped, "overdue: fire")), nil); err != nil || plan.Rules[0].Begin != 1 {
			t.Errorf("since %s: %+v, %v", since, plan.Rules, err)
		}
		s.exec("delete from shop.orders")
		s.wants("deleted", "")
	}
}

// A file of zone data that the binary reads, and the server does not.
func TestZonesOfWhichTheServerHasOtherDataAreTold(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.apply(unshipped + "    timezone: America/Phoenix\n")
	_, err := s.store.Plan(t.Context(), parse(t, unshipped+"    timezone: America/Newtown\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "timezone: the server does not know time zone America/Newtown") {
		t.Errorf("planned with %v", err)
	}
	const differs = "clocks of America/Phoenix differ on "
	if p := s.plan(unshipped + "    timezone: America/Phoenix\n").Rules[0]; len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], differs) ||
		!strings.Contains(p.Warnings[0], "+09:00 by the zone data of this binary, and -07:00 by those of the server") {
		t.Errorf("warnings %q", p.Warnings)
	}
	faults, err := s.store.Faults(t.Context())
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Zone, differs) {
		t.Errorf("faults %+v, %v", faults, err)
	}
}
