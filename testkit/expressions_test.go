package testkit_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// scan is a rule of a file on tables of its own, in virtual time from 2026-03-27 09:00 UTC on, two days before the clocks of
// Europe change.
type scan struct {
	tables string
	table  string // of the rule; empty: public.o

	calendars string // of the file
	rules     string
	skip      bool // overdue: skip instead of fire
	// then are statements to execute after a time, such as "2h: update t set a = 1", in order.
	then []string
	// days is for how long the rule runs.
	days int
	// want lists what fires: the type of the event, the key and the instant.
	want []string
}

var scans = map[string]scan{
	"the instant is a timestamp in the zone of the rule, and clocks skip an hour": {
		tables: `create table o (id int primary key, at timestamp, done boolean);
			insert into o values (1, '2026-03-28 02:30'), (2, '2026-03-29 01:30'), (3, '2026-03-29 02:30'), (4, '2026-03-29 03:30'), (5, null)`,
		rules: `since: at, done: done, timezone: Europe/Berlin, steps: [{after: 1h, event: late}]`,
		days:  3,
		want:  []string{"late 1 03-28 02:30", "late 2 03-29 01:30", "late 3 03-29 02:00", "late 4 03-29 02:30"},
	},
	"the instant is a date": {
		tables: `create table o (id int primary key, due date, paid boolean not null default false);
			insert into o values (1, '2026-03-28'), (2, '2026-03-29')`,
		rules: `since: due, done: paid, timezone: America/New_York, steps: [{after: 0s, event: due}]`,
		then:  []string{"30h: update o set paid = true where id = 2"},
		days:  4,
		want:  []string{"due 1 03-28 04:00"},
	},
	"the instant is an epoch of milliseconds": {
		tables: `create table o (id int primary key, seen bigint, active boolean not null default true);
			insert into o values (1, extract(epoch from timestamptz '2026-03-27 09:00Z') * 1000), (2, extract(epoch from timestamptz '2026-03-27 10:00Z') * 1000)`,
		rules: `since: to_timestamp(seen / 1000), done: not active, steps: [{after: 10m, event: silent}]`,
		then:  []string{"5m: update o set seen = seen + 3600000 where id = 1"},
		days:  1,
		want:  []string{"silent 1 03-27 10:10", "silent 2 03-27 10:10"},
	},
	"the instant is in a document": {
		tables: `create table o (id int primary key, data jsonb);
			insert into o values (1, '{"expiresAt": "2026-03-27T10:04:05Z", "state": "open"}'), (2, '{"expiresAt": "2026-03-27T10:04:05Z", "state": "shut"}')`,
		rules: `since: "(data->>'expiresAt')::timestamptz", done: "data->>'state' <> 'open'", steps: [{after: 0s, event: expired}]`,
		days:  1,
		want:  []string{"expired 1 03-27 10:04"},
	},
	"the delay is the setting of another table, and a payment ends the wait": {
		tables: `create table channel (id int primary key, minutes int);
			create table o (id int primary key, channel_id int, created_at timestamptz, status text);
			create table payment (id int primary key, order_id int);
			insert into channel values (1, 60), (2, 120), (3, null);
			insert into o select id, id % 4, '2026-03-27 09:00Z', 'unconfirmed' from generate_series(1, 7) as id`,
		rules: `since: created_at, done: "status <> 'unconfirmed' or exists (select from public.payment p where p.order_id = o.id)", ` +
			`steps: [{after: {interval: "make_interval(mins => (select c.minutes from public.channel c where c.id = o.channel_id))"}, event: expired}]`,
		then: []string{"20m: insert into payment values (1, 5)", "30m: update o set status = 'paid' where id = 6"},
		days: 1,
		want: []string{"expired 1 03-27 10:00", "expired 2 03-27 11:00"},
	},
	"the delay is a column": {
		tables: `create table o (id int primary key, ping timestamptz, timeout interval, up boolean default true);
			insert into o values (1, '2026-03-27 09:00Z', '1 hour'), (2, '2026-03-27 09:00Z', '1 month'), (3, '2026-03-27 09:00Z', null)`,
		rules: `since: ping, done: not up, timezone: Europe/Berlin, steps: [{after: {interval: timeout}, event: down}]`,
		then:  []string{"30m: update o set timeout = '45 min' where id = 1", "40m: update o set timeout = '2 days' where id = 3"},
		days:  40,
		want:  []string{"down 1 03-27 09:45", "down 3 03-29 08:00", "down 2 04-27 08:00"},
	},
	"the delay of one step is a column, and that of another a setting": {
		tables: `create table channel (id int primary key, minutes int);
			create table o (id int primary key, ping timestamptz, timeout interval, wait interval);
			insert into o values (1, '2026-03-27 09:00Z', '1 hour', '9 hours'), (2, '2026-03-27 09:00Z', '1 hour', '9 hours')`,
		rules: `since: ping, done: "false", steps: [{after: {interval: timeout}, event: down}, {after: {interval: wait}, event: lost}, ` +
			`{after: {interval: "make_interval(mins => (select c.minutes from public.channel c where c.id = o.id))"}, event: never}]`,
		then: []string{"30m: update o set timeout = '45 min' where id = 1", "2h: update o set wait = '3 hours' where id = 2"},
		days: 1,
		want: []string{"down 1 03-27 09:45", "down 2 03-27 10:00", "lost 2 03-27 12:00", "lost 1 03-27 18:00"},
	},
	"the row says how often and how many times a step repeats, over a change of the clocks": {
		tables: `create table o (id int primary key, at timestamptz, nag_days int, max_nags int);
			insert into o values (1, '2026-03-27 09:00Z', 1, 3), (2, '2026-03-27 09:00Z', 2, null), (3, '2026-03-27 09:00Z', null, 3),
				(4, '2026-03-27 09:00Z', 1, 0), (5, '2026-03-27 09:00Z', 0, null), (6, '2026-03-27 09:00Z', -1, 2), (7, null, 1, 1)`,
		rules: `since: at, done: "false", timezone: Europe/Berlin, steps: [{after: 1d, every: {interval: make_interval(days => nag_days)}, times: {count: max_nags}, event: nag}]`,
		days:  5,
		want: []string{
			"nag 1 03-28 09:00", "nag 2 03-28 09:00", "nag 3 03-28 09:00", "nag 5 03-28 09:00", "nag 6 03-28 09:00",
			"nag 1 03-29 08:00", "nag 1 03-30 08:00", "nag 2 03-30 08:00", "nag 2 04-01 08:00",
		},
	},
	"the delay between the times is an interval of months, days and hours, at a time of day": {
		tables: `create table o (id int primary key, at timestamptz, nag interval);
			insert into o values (1, '2026-03-27 09:00Z', '1 day'), (2, '2026-03-27 09:00Z', '30 hours'), (3, '2026-03-27 09:00Z', '1 month -28 days'), (4, '2026-03-27 09:00Z', '1 second')`,
		rules: `since: at, done: "false", timezone: Europe/Berlin, steps: [{after: 1h at 07:30, every: {interval: nag}, times: 3, event: nag}]`,
		days:  6,
		want: []string{
			"nag 1 03-28 06:30", "nag 2 03-28 06:30", "nag 3 03-28 06:30", "nag 4 03-28 06:30",
			"nag 1 03-29 05:30", "nag 4 03-29 05:30", "nag 1 03-30 05:30", "nag 2 03-30 05:30", "nag 4 03-30 05:30", "nag 2 04-01 05:30",
		},
	},
	"a delay between the times that is too long or too short neither wraps nor floods": {
		tables: `create table o (id int primary key, at timestamptz, nag interval, n bigint);
			insert into o values (1, '2026-03-27 09:00Z', make_interval(mins => 2147483647), 9223372036854775807), (2, '2026-03-27 09:00Z', make_interval(days => 2147483647), 9),
				(3, '2026-03-27 09:00Z', make_interval(months => 2147483647, days => -2147483647), 9), (4, '2026-03-27 09:00Z', '1 microsecond', 9223372036854775807),
				(5, '2026-03-27 09:00Z', make_interval(days => -2147483648), -9223372036854775808), (6, '2026-03-27 09:00Z', '1 hour', 9223372036854775807)`,
		rules: `since: at, done: "at > '2026-03-28'", steps: [{after: 1h, every: {interval: nag}, times: {count: n}, event: nag}]`,
		then:  []string{"1h40m: update o set at = '2026-03-29'", "2h: update o set at = '2026-04-27'"},
		days:  1,
		want: []string{
			"nag 1 03-27 10:00", "nag 2 03-27 10:00", "nag 3 03-27 10:00", "nag 4 03-27 10:00", "nag 6 03-27 10:00", "nag 4 03-27 10:15", "nag 4 03-27 10:30",
		},
	},
	"the row changes how often a step repeats": {
		tables: `create table o (id int primary key, at timestamptz, nag int, max int);
			insert into o select id, '2026-03-27 09:00Z', 6, 9 from generate_series(1, 6) as id`,
		rules: `since: at, done: "false", steps: [{after: 1h, every: {interval: make_interval(hours => nag)}, times: {count: max}, event: nag}]`,
		then: []string{ // all have fired at 10:00 and at 16:00
			"8h: update o set nag = 3 where id = 1", // 17:00
			"8h: update o set nag = 1 where id = 2", // its third time has passed
			"8h: update o set nag = 20 where id = 3",
			"8h: update o set nag = null where id = 4",
			"8h: update o set max = 2 where id = 5",
			"8h: update o set max = 1 where id = 6",
			"20h: update o set nag = 12 where id = 4",
			"20h: update o set max = 3, nag = 1 where id in (5, 6)",
			"23h: update o set nag = 100",
		},
		days: 2,
		want: []string{
			"nag 1 03-27 10:00", "nag 2 03-27 10:00", "nag 3 03-27 10:00", "nag 4 03-27 10:00", "nag 5 03-27 10:00", "nag 6 03-27 10:00",
			"nag 1 03-27 16:00", "nag 2 03-27 16:00", "nag 3 03-27 16:00", "nag 4 03-27 16:00", "nag 5 03-27 16:00", "nag 6 03-27 16:00",
			"nag 2 03-27 17:00", "nag 2 03-27 18:00", "nag 1 03-27 19:00", "nag 2 03-27 19:00", "nag 2 03-27 20:00", "nag 2 03-27 21:00", "nag 1 03-27 22:00",
			"nag 2 03-27 22:00", "nag 2 03-27 23:00", "nag 1 03-28 01:00", "nag 1 03-28 04:00",
			"nag 4 03-28 04:00", "nag 5 03-27 17:00", "nag 6 03-27 17:00", // they had passed by 05:00
			"nag 1 03-28 07:00",
		},
	},
	"another table says how often a step repeats": {
		tables: `create table plan (id int primary key, nag interval, max smallint);
			create table o (id int primary key, plan_id int, at timestamptz);
			insert into plan values (1, '6 hours', 3), (2, '1 day', 9);
			insert into o values (1, 1, '2026-03-27 09:00Z'), (2, 2, '2026-03-27 09:00Z'), (3, 9, '2026-03-27 09:00Z')`,
		rules: `since: at, done: "false", also: {table: public.plan, key: id}, steps: [{after: 1h, every: {interval: (select p.nag from public.plan p where p.id = o.plan_id)}, ` +
			`times: {count: (select p.max from public.plan p where p.id = o.plan_id)}, event: nag}]`,
		then: []string{"2h: update plan set nag = '3 hours' where id = 2", "8h: update o set plan_id = 1 where id = 2"},
		days: 1,
		want: []string{
			"nag 1 03-27 10:00", "nag 2 03-27 10:00", "nag 3 03-27 10:00", "nag 2 03-27 13:00", "nag 1 03-27 16:00", "nag 2 03-27 16:00", "nag 1 03-27 22:00",
		},
	},
	"the row names its zone, also when it waits, and a name that is not known fails alone": {
		tables: `create table o (id int primary key, at timestamptz, tz text);
			insert into o values (1, '2026-03-28 10:00Z', 'Europe/Berlin'), (2, '2026-03-28 10:00Z', 'Asia/Tokyo'), (3, '2026-03-28 10:00Z', 'America/New_York'),
				(4, '2026-03-28 10:00Z', null), (5, '2026-03-28 10:00Z', 'Mars'), (6, '2026-03-28 10:00Z', 'Asia/Tokyo')`,
		rules: `since: at, done: "false", timezone: {name: tz}, steps: [{after: 1d, event: day}, {after: 1d at 09:00, every: 1d, times: 2, event: nine}]`,
		then: []string{
			"35h: update o set tz = 'UTC' where id = 4", // before its steps
			"69h: update o set tz = 'America/New_York' where id = 6",
			"75h: update o set tz = 'UTC' where id = 5", // two steps have passed
		},
		days: 6,
		want: []string{
			"day 1 03-29 09:00", "day 2 03-29 10:00", "day 3 03-29 10:00", "day 4 03-29 10:00", "day 6 03-29 10:00", "nine 3 03-29 13:00",
			"nine 2 03-30 00:00", "nine 6 03-30 00:00", "nine 1 03-30 07:00", "nine 4 03-30 09:00", "day 5 03-29 10:00", "nine 5 03-30 09:00",
			"nine 3 03-30 13:00", "nine 6 03-30 13:00", "nine 2 03-31 00:00", "nine 1 03-31 07:00", "nine 4 03-31 09:00", "nine 5 03-31 09:00",
		},
	},
	"a timestamp by the clocks of the row": {
		tables: `create table o (id int primary key, local timestamp, day date, tz text, shut timestamptz)`,
		rules:  `since: [local at time zone tz, "day::timestamp at time zone tz"], done: shut, timezone: {name: tz}, steps: [{before: 1d, event: soon}, {after: 0d at 09:00, event: nine}]`,
		then: []string{
			"0m: insert into o values (1, '2026-03-29 12:00', null, 'Europe/Berlin'), (2, '2026-03-29 12:00', null, 'Asia/Tokyo'), (3, null, '2026-03-30', 'America/New_York'), (4, '2026-03-29 12:00', null, 'Mars')",
			"2h: update o set tz = 'Mars/Base' where id = 2",
			"3h: update o set tz = 'UTC' where id in (2, 4)",
		},
		days: 5,
		want: []string{
			"soon 1 03-28 11:00", "soon 2 03-28 12:00", "soon 4 03-28 12:00", "soon 3 03-29 04:00",
			"nine 1 03-30 07:00", "nine 2 03-30 09:00", "nine 4 03-30 09:00", "nine 3 03-30 13:00",
		},
	},
	"the row names its calendar, in a column or in another table that speaks up": {
		calendars: `calendars: {de: {timezone: Europe/Berlin, country: DE, hours: "mon-fri 09:00-17:00"}, us: {timezone: America/New_York, hours: "mon-fri 09:00-17:00"}, ae: {hours: "sun-thu 08:00-16:00"}}`,
		tables: `create table customer (id int primary key, country text);
			create table o (id int primary key, customer_id int, region text, at timestamptz);
			insert into customer values (1, 'de'), (2, 'us'), (3, null);
			insert into o select id, id, null, '2026-03-27 11:00Z' from generate_series(1, 3) as id;
			insert into o values (4, 9, 'de', '2026-03-27 11:00Z'), (5, 9, 'de', '2026-03-27 11:00Z'), (6, 9, 'ae', '2026-03-27 11:00Z'), (7, 9, null, '2026-03-27 11:00Z')`,
		rules: `since: at, done: "false", also: {table: public.customer, key: id}, steps: [{after: 4 business hours, calendar: {name: "coalesce(region, (select c.country from public.customer c where c.id = o.customer_id))"}, event: hours}, ` +
			`{after: 2 business days at 10:00, calendar: {name: "coalesce(region, (select c.country from public.customer c where c.id = o.customer_id))"}, event: days}]`,
		then: []string{
			"5h: update o set region = 'us' where id = 5", // of 4 hours, one has passed in New York
			"20h: update customer set country = 'ae' where id = 3",
			"74h: update o set region = 'ae' where id = 4; update o set region = 'de' where id = 7", // hours have fired for row 4, and have passed for row 7
		},
		days: 6,
		want: []string{
			"hours 1 03-27 15:00", "hours 4 03-27 15:00", "hours 2 03-27 17:00", "hours 5 03-27 17:00", "hours 6 03-29 12:00", "hours 3 03-29 12:00",
			"hours 7 03-27 15:00", "days 4 03-31 10:00", "days 6 03-31 10:00", "days 3 03-31 10:00", "days 2 03-31 14:00", "days 5 03-31 14:00",
			"days 1 04-01 08:00", "days 7 04-01 08:00",
		},
	},
	"a row whose names are not known is paused, is done in time, or is over": {
		calendars: `calendars: {de: {timezone: Europe/Berlin, hours: "mon-fri 09:00-17:00"}}`,
		tables: `create table o (id int primary key, region text, tz text, at timestamptz, hold boolean not null default false, shut boolean not null default false);
			insert into o values (1, null, 'Mars', '2026-03-27 09:00Z', true), (2, 'fr', 'UTC', '2026-03-27 09:00Z', false), (3, 'de', 'UTC', '2026-03-27 09:00Z', false), (4, 'de', null, '2026-03-27 09:00Z', false)`,
		rules: `since: at, done: shut, pause: hold, timezone: {name: tz}, met: {event: met}, recovered: {event: over}, ` +
			`steps: [{after: 50% of 4 business hours, calendar: {name: region}, event: hours}, {after: 3h, every: 1h, times: 2, event: hourly}]`,
		then: []string{
			"1h: update o set shut = true where id in (2, 4)",
			"2h: update o set hold = false, region = 'de', tz = 'Asia/Tokyo' where id = 1",
			"150m: update o set tz = 'Mars', region = 'fr' where id = 3",
			"3h: update o set shut = true where id = 3",
		},
		days: 1,
		want: []string{"met 2 03-27 10:15", "hours 3 03-27 11:00", "over 3 03-27 12:15", "hours 1 03-27 13:00", "hourly 1 03-27 14:00", "hourly 1 03-27 15:00"},
	},
	"a delay of more than 292 years stands for never": {
		tables: `create table o (id int primary key, s timestamptz, minutes int);
			create table setting (id int primary key, minutes int);
			insert into setting values (1, 2147483647), (2, 60), (3, 2147483647);
			insert into o values (1, '2026-03-27 09:00Z', 2147483647), (2, '2026-03-27 09:00Z', 60), (3, '2026-03-27 09:00Z', -2147483648);`,
		rules: `since: s, done: "false", steps: [{after: 2m, event: first}, {after: {interval: make_interval(mins => minutes)}, event: limit}, ` +
			`{after: {interval: "(select make_interval(mins => l.minutes) from public.setting l where l.id = o.id)"}, event: look}]`,
		then: []string{"1h: insert into o values (4, '2026-03-27 10:00Z', 30)"},
		days: 1,
		want: []string{"first 1 03-27 09:02", "first 2 03-27 09:02", "first 3 03-27 09:02", "limit 2 03-27 10:00", "look 2 03-27 10:00", "first 4 03-27 10:02", "limit 4 03-27 10:30"},
	},
	"a condition may have a text that looks like a value": {
		tables: `create table o (id int primary key, at timestamptz, note text);
			insert into o values (1, '2026-03-27 09:00Z', '$2 now'), (2, '2026-03-27 09:00Z', 'today')`,
		rules: `since: at, done: "false", where: "note <> '$2' and note in ('today', '$2 now')", steps: [{after: 2h, event: late}]`,
		days:  1,
		want:  []string{"late 1 03-27 11:00", "late 2 03-27 11:00"},
	},
	"what has always been done is done, whatever its type": {
		tables: `create table o (id int primary key, at timestamptz, a timestamptz, b timestamp, c date);
			insert into o values (1, '2026-03-27 09:00Z', '-infinity', null, null), (2, '2026-03-27 09:00Z', null, '-infinity', null),
				(3, '2026-03-27 09:00Z', null, null, '-infinity'), (4, '2026-03-27 09:00Z', 'infinity', 'infinity', 'infinity')`,
		rules: `since: at, done: [a, b, c], timezone: Europe/Berlin, steps: [{after: 2h, event: late}]`,
		days:  1,
		want:  []string{"late 4 03-27 11:00"},
	},
	"the table has the name of a type, and columns have names of the rule's queries": {
		tables: `create schema shop;
			create table shop.text (id int primary key, at timestamptz, prescient_p text, prescient_value timestamptz);
			insert into shop.text values (1, '2026-03-27 09:00Z', 'x', null)`,
		table: "shop.text",
		rules: `since: at, done: prescient_value, where: prescient_p <> '', payload: [prescient_p], steps: [{after: 2h, event: late}]`,
		then:  []string{"1h: insert into shop.text values (2, '2026-03-27 09:00Z', 'x', null)"},
		days:  1,
		want:  []string{"late text/1 03-27 11:00", "late text/2 03-27 11:00"},
	},
	"a function that reads a table is looked up": {
		tables: `create table client (id int primary key, active boolean);
			insert into client values (1, false), (2, true);
			create function active(int) returns boolean language sql stable as 'select active from public.client where id = $1';
			create table o (id int primary key, at timestamptz, client_id int)`,
		rules: `since: at, done: "false", where: public.active(client_id), steps: [{after: 2h, event: late}]`,
		then:  []string{"0m: insert into o values (1, '2026-03-27 09:00Z', 1), (2, '2026-03-27 09:00Z', 2)", "1h: update client set active = not active"},
		days:  1,
		want:  []string{"late 1 03-27 11:00"},
	},
	"the clock starts again with a child row": {
		tables: `create table o (id int primary key, created_at timestamptz);
			create table heartbeat (monitor_id int, at timestamptz);
			insert into o values (1, '2026-03-27 09:00Z'), (2, '2026-03-27 09:00Z')`,
		rules: `since: [created_at, "(select max(h.at) from public.heartbeat h where h.monitor_id = o.id)"], done: "false", steps: [{after: 2h, event: silent}]`,
		then:  []string{"1h: insert into heartbeat values (1, '2026-03-27 10:00Z')"},
		days:  1,
		want:  []string{"silent 2 03-27 11:00", "silent 1 03-27 12:00"},
	},
	"the clock starts again with a child row after the last step": {
		tables: `create table o (id int primary key, created_at timestamptz);
			create table heartbeat (monitor_id int, at timestamptz);
			insert into o values (1, '2026-03-27 09:00Z')`,
		rules: `since: [created_at, "(select max(h.at) from public.heartbeat h where h.monitor_id = o.id)"], done: "false", recheck: 1h, steps: [{after: 2h, event: silent}]`,
		then:  []string{"5h: insert into heartbeat values (1, '2026-03-27 13:50Z')"},
		days:  1,
		want:  []string{"silent 1 03-27 11:00", "silent 1 03-27 15:50"},
	},
	"the clock starts again with a child row of a row whose steps had passed": {
		tables: `create table o (id int primary key, created_at timestamptz, gone boolean not null default false);
			create table heartbeat (monitor_id int, at timestamptz);
			insert into o values (1, '2026-03-20 09:00Z', false), (2, '2026-03-20 09:00Z', true)`,
		rules: `since: [created_at, "(select max(h.at) from public.heartbeat h where h.monitor_id = o.id)"], done: gone, steps: [{after: 2h, event: silent}]`,
		skip:  true,
		then:  []string{"1h: update o set gone = false", "5h: insert into heartbeat values (1, '2026-03-27 13:50Z'), (2, '2026-03-27 13:50Z')"},
		days:  1,
		want:  []string{"silent 1 03-27 15:50", "silent 2 03-27 15:50"},
	},
	"the clock starts with the first child row": {
		tables: `create table o (id int primary key, first timestamptz);
			create table heartbeat (monitor_id int, at timestamptz);
			insert into o values (1, null)`,
		rules: `since: [first, "(select max(h.at) from public.heartbeat h where h.monitor_id = o.id)"], done: "false", steps: [{after: 2h, event: silent}]`,
		then:  []string{"5h: insert into heartbeat values (1, '2026-03-27 13:50Z')"},
		days:  1,
		want:  []string{"silent 1 03-27 15:50"},
	},
	"another table speaks up": {
		tables: `create table o (id int primary key, at timestamptz);
			create table payment (id int primary key, o_id int);
			insert into o select id, '2026-03-27 09:00Z' from generate_series(1, 3) as id`,
		rules: `since: at, done: exists (select from public.payment p where p.o_id = o.id), also: {table: public.payment, key: o_id}, ` +
			`recovered: {event: paid}, steps: [{after: 1h, event: first}, {after: 5h, event: last}]`,
		then: []string{
			"30m: insert into payment values (1, 1), (2, 2)", // before a step
			"2h1m: insert into payment values (3, 3)",        // after one
			"6h: delete from payment where id = 2",           // what the table has ended begins again
			"7h1m: insert into payment values (4, 2)",
		},
		days: 2,
		want: []string{"first 3 03-27 10:00", "paid 3 03-27 11:15", "first 2 03-27 10:00", "last 2 03-27 14:00", "paid 2 03-27 16:15"},
	},
	"the clock starts when a column changes": {
		tables: `create table o (id int primary key, status text, stage int, open boolean not null default true);
			insert into o values (1, 'new', 1), (2, 'new', 1), (3, 'new', 1)`,
		rules: `since: changed(status), done: not open, where: status <> 'shut', steps: [{after: 3h, event: stuck}]`,
		then: []string{
			"1h: update o set status = 'asked' where id = 1; update o set status = 'new', stage = 2 where id = 2; insert into o values (4, 'new', 1), (5, 'shut', 1)",
			"2h: update o set id = 13 where id = 3; update o set open = false where id = 4",
			"5h: update o set open = true where id = 4; update o set status = 'asked' where id = 2; delete from o where id = 13",
			"6h: update o set status = 'x' where id = 1; update o set open = false where id = 1",
			"6h30m: update o set status = 'new' where id = 5",
			"7h: update o set open = true where id = 1; insert into o values (13, 'new', 1)",
		},
		days: 1,
		want: []string{
			"stuck 2 03-27 12:00", "stuck 13 03-27 12:00", "stuck 1 03-27 13:00",
			"stuck 2 03-27 17:00", "stuck 1 03-27 18:00", "stuck 5 03-27 18:30", "stuck 13 03-27 19:00",
		},
	},
	"another table that starts the clock tells of it": {
		tables: `create table o (id int primary key);
			create table beat (id int, at timestamptz);
			insert into o values (1), (2)`,
		rules: `since: (select max(b.at) from public.beat b where b.id = o.id), done: "false", also: {table: public.beat, key: id}, steps: [{after: 2h, event: silent}]`,
		then:  []string{"1h: insert into beat values (1, '2026-03-27 10:00Z')", "2h: insert into beat values (1, '2026-03-27 11:00Z')", "20h: insert into beat values (1, '2026-03-28 05:00Z')"},
		days:  3,
		want:  []string{"silent 1 03-27 13:00", "silent 1 03-28 07:00"},
	},
	"a row that a lookup has ended waits again if its own column changes": {
		tables: `create table status (id int primary key, closed boolean);
			insert into status values (1, false), (5, true);
			create table o (id int primary key, due timestamptz, status_id int);
			insert into o values (1, '2026-03-28 09:00Z', 1)`,
		rules: `since: due, done: (select s.closed from public.status s where s.id = o.status_id), steps: [{before: 12h, event: soon}, {after: 0s, event: due}]`,
		then:  []string{"1h: update o set status_id = 5", "13h: update o set status_id = 1"},
		days:  2,
		want:  []string{"due 1 03-28 09:00"},
	},
	"a row that cannot be computed does not make a write fail": {
		tables: `create table o (id int primary key, at timestamptz, n int)`,
		rules:  `since: at, done: "100 / n = 1", steps: [{after: 1h, event: late}]`,
		then:   []string{"0m: insert into o values (1, '2026-03-27 09:00Z', 0), (2, '2026-03-27 09:00Z', 5)", "10m: update o set n = 100"},
		days:   1,
	},
}

func TestRulesReadTheTablesThatPeopleHave(t *testing.T) {
	t.Parallel()
	for n, name := range slices.Sorted(maps.Keys(scans)) {
		if testing.Short() && n%3 > 0 {
			continue
		}
		s := scans[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(s.rules, "changed(") || strings.Contains(s.tables, "create schema") {
				pgtest.NotOnCitus(t, "it has no rules with changed, or for tables of a distributed schema")
			}
			start := time.Date(2026, time.March, 27, 9, 0, 0, 0, time.UTC)
			kit := testkit.New(t, testkit.Config{Registry: registry(), Start: start})
			kit.DB.MustExec(s.tables)
			overdue := "fire"
			if s.skip {
				overdue = "skip"
			}
			kit.Rules(rulesFile(t, s.calendars+"\nrules:\n  - {name: r, table: "+cmp.Or(s.table, "public.o")+", key: id, overdue: "+overdue+", "+s.rules+"}\n"))
			for _, then := range s.then {
				after, statement, _ := strings.Cut(then, ": ")
				d, err := time.ParseDuration(after)
				if err != nil {
					t.Fatal(err)
				}
				kit.RunFor(start.Add(d).Sub(kit.Now()))
				kit.DB.MustExec(statement)
			}
			kit.RunFor(start.AddDate(0, 0, s.days).Sub(kit.Now()))
			var got []string
			for _, e := range kit.Events() {
				got = append(got, e.Type+" "+strings.TrimPrefix(e.Subject, "o/")+" "+e.Time.Format("01-02 15:04"))
			}
			if diff := gocmp.Diff(s.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
