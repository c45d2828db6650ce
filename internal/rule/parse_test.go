package rule_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/prescient-go/prescient/internal/rule"
)

const orders = `calendars:
  berlin: {timezone: Europe/Berlin, country: DE, region: BE, hours: "mon-fri 09:00-17:00", holidays: [2026-12-24]}
rules:
  - name: order.unshipped
    table: shop.orders
    key: id
    since: placed_at              # when the clock starts
    done: shipped_at
    where: channel <> 'test'
    payload: [customer_id, amount]
    recovered: {event: order.shipped.late}
    steps:
      - {after: 48h, event: order.unshipped.primary}
      - {after: 3 business days, calendar: berlin, event: order.unshipped.final}
      - {after: 10d, sql: "insert into escalation (order_id) values ($key)"}
    overdue: spread 8
`

func TestAFileIsRead(t *testing.T) {
	t.Parallel()
	got, err := rule.Parse(strings.NewReader(orders))
	if err != nil {
		t.Fatal(err)
	}
	want := rule.File{
		Calendars: map[string]rule.Calendar{"berlin": {
			Timezone: "Europe/Berlin", Country: "DE", Region: "BE", Hours: "mon-fri 09:00-17:00", Holidays: []string{"2026-12-24"},
		}},
		Rules: []rule.Rule{{
			Name: "order.unshipped", Table: "shop.orders", Key: rule.Texts{"id"}, Entity: "orders", Since: rule.Texts{"placed_at"}, Done: rule.Texts{"shipped_at"},
			Where: rule.Texts{"channel <> 'test'"}, Payload: []string{"customer_id", "amount"}, Line: 4,
			Recovered: rule.Act{Event: "order.shipped.late"}, Overdue: rule.Overdue{Policy: rule.OverdueSpread, Slots: 8},
			Steps: []rule.Step{
				{Name: "order.unshipped.primary", After: rule.Delay{Duration: 48 * time.Hour}, Event: "order.unshipped.primary", Line: 13},
				{Name: "order.unshipped.final", After: rule.Delay{BusinessDays: 3}, Calendar: "berlin", Event: "order.unshipped.final", Line: 14},
				{Name: "sql", After: rule.Delay{Days: 10}, SQL: "insert into escalation (order_id) values ($key)", Line: 15},
			},
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(rule.Rule{}, "Lines")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p := got.Rules[0].Problem("steps[2].after", "is %s", "wrong"); p.Error() != "line 14: rule order.unshipped: steps[2].after: is wrong" {
		t.Error(p)
	}
	if p := got.Rules[0].Problem("role", "is wrong"); p.Error() != "line 4: rule order.unshipped: role: is wrong" {
		t.Error(p)
	}
}

// The database keeps rules as JSON.
func TestARuleIsTheSameAfterJSON(t *testing.T) {
	t.Parallel()
	file, err := rule.Parse(strings.NewReader(orders))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() (rule.File, error){
		"decoded": func() (f rule.File, err error) { return f, json.Unmarshal(text, &f) },
		"parsed":  func() (rule.File, error) { return rule.Parse(strings.NewReader(string(text))) },
	} {
		got, err := read()
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(file, got, cmpopts.IgnoreFields(rule.Rule{}, "Line", "Lines"), cmpopts.IgnoreFields(rule.Step{}, "Line")); diff != "" {
			t.Errorf("%s (-want +got)\n%s\n%s", name, diff, text)
		}
	}
}

func TestStepsHaveNames(t *testing.T) {
	t.Parallel()
	file := parse(t, `
steps:
- {after: 1h, event: late}
- {after: 2h, job: lost}
- {after: 3h, event: again}
- {after: 4h, event: again, name: again.later}
- {after: 5h, sql: select 1, name: note}
- {after: 6h, sql: select 2}`)
	var names []string
	for _, s := range file.Rules[0].Steps {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"late", "lost", "again", "again.later", "note", "sql"}, names); diff != "" {
		t.Error(diff)
	}
}

// fileOf returns a file with one rule whose other fields are right. Lines of fields begin at line 3.
func fileOf(fields string) string {
	var b strings.Builder
	b.WriteString("rules:\n-\n")
	given := map[string]bool{}
	for line := range strings.Lines(strings.TrimPrefix(fields, "\n")) {
		name, _, _ := strings.Cut(line, ":")
		given[strings.TrimSpace(name)] = true
		b.WriteString("  " + line)
	}
	b.WriteString("\n")
	for name, value := range map[string]string{
		"name": "r", "table": "shop.orders", "key": "id", "since": "placed_at", "done": "shipped_at", "steps": "[{after: 1h, event: e}]",
	} {
		if !given[name] {
			b.WriteString("  " + name + ": " + value + "\n")
		}
	}
	return b.String()
}

func parse(t *testing.T, fields string) rule.File {
	t.Helper()
	file, err := rule.Parse(strings.NewReader(fileOf(fields)))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAMistakeOfARuleIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`met: {}`:                                         `line 3: rule r: met: want the type of an event, a job or a receiver, such as {event: order.shipped}`,
		"met: {event: b}\ncancel: at-once":                `line 3: rule r: met: a check tells that a row is done in time, and cancel: at-once cancels the check of a row that is done: leave out cancel`,
		`met: {notify: ops, text: "{{.nothing}}"}`:        `line 3: rule r: met: text: there is no .nothing: want one of .rule`,
		"met: {job: b}\nsteps: [{after: 1h, event: met}]": `line 4: rule r: steps[1].name: "met" is the name of what follows with met: give the step another name`,

		`when: now()`:                       `line 3: rule r: when: there is no such field: did you mean where?`,
		"payload: [{id: a}, {id: b}]":       `payload[2].id: is there twice`,
		"payload: [id, {id: b}]":            `payload[2].id: is there twice`,
		"payload: [{'': b}]":                `payload[1]: the name of a value is empty`,
		"payload: [{now: now()}]":           `payload[1].now: now moves by itself`,
		"payload: {id: a}":                  `payload: want a list, not fields`,
		"where: true\nwhere: false":         `line 4: rule r: where: is there twice`,
		`name:`:                             `line 3: name: must be set, such as order.unshipped`,
		`name: schedule`:                    `line 3: rule schedule: name: the job of schedules has this name`,
		`name: ` + strings.Repeat("x", 201): `name: must be at most 200 bytes, is 201`,
		`name: "a\0b"`:                      `name: must not contain a NUL byte`,
		`table: orders`:                     `line 3: rule r: table: "orders": want the schema and the table, such as shop.orders`,
		`table: a.b.c`:                      `table: "a.b.c": want the schema and the table`,
		`table: shop.my orders`:             `table: "shop.my orders": want names as SQL has them`,
		`key: {a: b}`:                       `line 3: rule r: key: want a text, not fields`,
		`key: []`:                           `line 3: rule r: key: must be set, such as id`,
		`key: [a, A]`:                       `line 3: rule r: key: column A is there twice`,
		`key: [a, b, c, d, e, f, g, h, i]`:  `line 3: rule r: key: has 9 columns, and may have 8`,
		`since: {column: x}`:                `since: want a text, not fields`,
		`done: ""`:                          `line 3: rule r: done: must be set, such as shipped_at, or false if only a delete or where ends the wait`,
		`payload: amount`:                   `line 3: rule r: payload: want a list, not "amount"`,
		`payload: [a, ]`:                    ``,
		`payload: [a, ~]`:                   `payload: must not have an empty entry`,
		`overdue: later`:                    `line 3: rule r: overdue: "later": want fire, last, skip, or spread and a number of slots up to 10000, such as spread 8`,
		`overdue: spread`:                   `overdue: "spread": want fire`,
		`overdue: spread 0`:                 `overdue: "spread 0": want fire`,
		`overdue: fire 8`:                   `overdue: "fire 8": want fire`,
		`recovered: fine`:                   `line 3: rule r: recovered: want fields, such as name: value, not "fine"`,
		`recovered: {}`:                     `line 3: rule r: recovered: want the type of an event, a job or a receiver, such as {event: order.shipped} or {notify: ops}`,
		`recovered: {sql: select 1}`:        `line 3: rule r: recovered.sql: there is no such field: want one of event, job, notify, text, html, to, digest`,
		`recovered: {event: "a\nb"}`:        `line 3: rule r: recovered: event: must be at most 1000 bytes of text without control characters`,
		`overdue: last 8`:                   `overdue: "last 8": want fire`,
		`cancel: now`:                       `line 3: rule r: cancel: "now": want when-due, the default, or at-once`,
		`cancel: when-due`:                  ``,
		`steps: []`:                         `line 3: rule r: steps: must have at least one step`,
		`steps: 48h`:                        `steps: want a list, not "48h"`,
		`steps: [48h]`:                      `steps[1]: want fields, such as name: value, not "48h"`,
		`steps: [{event: e}]`:               `line 3: rule r: steps[1].after: must be set, such as 48h`,
		`steps: [{after: soon, event: e}]`:  `line 3: rule r: steps[1].after: "soon": want a duration such as 90m or 48h, days, weeks or months such as 10d, 2w or 1 month, or a number of business days, hours or minutes, such as 3 business days`,
		`steps: [{after: -5d, event: e}]`:   `"-5d": want a duration such as 90m or 48h, days, weeks or months such as 10d, 2w or 1 month, or a number of business days, hours or minutes, such as 3 business days. Write before: 5d`,
		`steps: [{before: -2w, event: e}]`:  `. Write after: 2w`,
		`steps: [{after: hold, event: e}]`:  `. For a delay of the row write after: {interval: "..."} with SQL of type interval, such as make_interval(days => hold)`,
		`steps: [{after: {interval: 3 days}, event: e}]`: `line 3: rule r: steps[1].after.interval: 3 days is the same for all rows: write after: 3d. The field interval takes an expression of SQL`,
		`steps: [{after: 1.5s, event: e}]`:               `"1.5s": must be whole seconds`,
		`steps: [{after: 3661d, event: e}]`:              `"3661d": must be at most 3660d`,
		`steps: [{after: 1h}]`:                           `line 3: rule r: steps[1]: must have at least one of event, sql, job and notify`,
		`steps: [{after: 1h, event: e, job: j}]`:         ``,
		`timezone: Mars`:                                 `line 3: rule r: timezone: unknown time zone Mars`,
		`timezone: Europe/Berlin`:                        ``,
		`timezone: tz`:                                   `timezone: unknown time zone tz: use a name of the IANA database, such as Europe/Berlin. For a name of the row write timezone: {name: tz}`,
		`timezone: {name: customer_tz}`:                  ``,
		`timezone: {name: (select c.tz from shop.c)}`:    ``,
		`timezone: {name: Europe/Berlin}`:                `timezone.name: Europe/Berlin is the same for all rows: write timezone: Europe/Berlin. The field name takes an expression of SQL, such as customer_tz`,
		`timezone: {name: "'UTC'"}`:                      `timezone.name: 'UTC' is the same for all rows: write timezone: UTC`,
		`timezone: {zone: tz}`:                           `timezone.zone: there is no such field: want name`,
		`timezone: {}`:                                   `timezone: want name: and an expression of SQL, such as customer_tz`,
		`timezone: {name: now()::text}`:                  `timezone.name: now moves`,
		`timezone: [UTC]`:                                `timezone: want a text, not a list`,
		`steps: [{after: 1h, delete: true}]`:             `rule r: steps[1].delete: there is no such field: want one of after, before, every, times, calendar, event, sql, job, name, notify, text, html, to, digest. A step deletes its row with sql: delete from TABLE where KEY = $key`,
		`steps: [{after: 1h, event: e, at: 5}]`:          `line 3: rule r: steps[1].at: there is no such field`,

		"recovered: {event: b}\nsteps: [{after: 1h, event: recovered}]": `line 4: rule r: steps[1].name: "recovered" is the name of what follows with recovered: give the step another name`,

		"steps:\n- {after: 2h, event: e}\n- {after: 120m, event: f}": `line 5: rule r: steps[2].after: 2h must be longer than the 2h of step 1: list the earliest step first`,

		"steps:\n- {after: 2h, event: e}\n- {after: 3h, event: f, name: e}": `line 5: rule r: steps[2].name: "e" is the name of step 1, too`,

		"steps:\n- {after: 1h, sql: s}\n- {after: 2h, sql: s, name: sql}": `steps[2].name: "sql" is the name of step 1, too`,

		`steps: [{after: 1 business day, event: e, calendar: {name: region}}]`:   `steps[1].calendar: the file has no calendars that the data of a row could name`,
		`steps: [{after: 1h, event: e, calendar: {name: region}}]`:               `steps[1].calendar: a delay of plain time, 1h, takes no calendar`,
		`steps: [{after: 1 business day, event: e, calendar: {name: "'de'"}}]`:   `steps[1].calendar.name: 'de' is the same for all rows: write calendar: de. The field name takes an expression of SQL, such as region`,
		`steps: [{after: {interval: hold}, calendar: {name: region}, event: e}]`: `steps[1].calendar: an interval of the data takes no calendar`,

		`steps: [{after: 1 business day, event: e}]`:                                                            `steps[1].after: a delay of 1 business day needs a calendar`,
		`steps: [{after: 1h, event: e, calendar: berlin}]`:                                                      `steps[1].calendar: a delay of plain time, 1h, takes no calendar`,
		`steps: [{after: 1 business day, event: e, calendar: x}]`:                                               `steps[1].calendar: there is no calendar "x" in the file`,
		`steps: [{after: 0 business days, event: e, calendar: x}]`:                                              `"0 business days": want a whole number of at least 1`,
		`steps: [{after: 1 business week, event: e, calendar: x}]`:                                              `"1 business week": want a duration`,
		`steps: [{after: 2601 business days, event: e}]`:                                                        `must be at most 2600 business days or 20800 business hours`,
		`steps: [{after: 1h, event: "a\tb"}]`:                                                                   `steps[1].event: must be at most 1000 bytes of text without control characters`,
		`steps: [{after: 1h, before: 1h, event: e}]`:                                                            `steps[1].before: a step has either after or before`,
		`steps: [{before: 0s, event: e}]`:                                                                       `steps[1].before: "0s": must be longer than 0s`,
		`steps: [{after: 50% of 3d, event: e}]`:                                                                 `steps[1].after: "50% of 3d": it is no whole number of days: write the delay in a smaller unit, such as 50% of 24h`,
		`steps: [{after: 33% of 1 business hour, calendar: c, event: e}]`:                                       `it is no whole number of business minutes`,
		`steps: [{after: 0% of 3d, event: e}]`:                                                                  `must be 1% to 1000%`,
		`steps: [{after: 1000% of 3000d, event: e}]`:                                                            `must be at most 3660d`,
		`steps: [{after: 1000% of 87840h, event: e}]`:                                                           `must be at most 3660d`,
		`steps: [{after: 50% of soon, event: e}]`:                                                               `want a duration such as 90m or 48h`,
		`steps: [{after: 50% of 50% of 4h, event: e}]`:                                                          `want a duration such as 90m or 48h`,
		`steps: [{before: 0s at 09:00, event: e}]`:                                                              `steps[1].before: must be longer than 0s`,
		`steps: [{before: 521w, event: e}]`:                                                                     `"521w": must be at most 520 weeks or 120 months`,
		`steps: [{after: 1y, event: e}]`:                                                                        `Write after: 1 year`,
		`steps: [{after: 11 years, event: e}]`:                                                                  `"11 years": must be at most 520 weeks or 120 months`,
		`steps: [{after: 1 month 2 days, event: e}]`:                                                            `"1 month 2 days": want a duration`,
		`steps: [{after: 1h at 24:00, event: e}]`:                                                               `"1h at 24:00": want a time of day from 00:00 to 23:59`,
		`steps: [{after: 1h at, event: e}]`:                                                                     `"1h at": want a duration`,
		`steps: [{after: 1h, times: 2, event: e}]`:                                                              `steps[1].times: needs every, such as every: 2d`,
		`steps: [{after: 1h, every: 2d, times: 0, event: e}]`:                                                   `steps[1].times: "0": want a whole number from 1 to`,
		`steps: [{after: 1h, every: 0s, event: e}]`:                                                             `steps[1].every: "0s": must be longer than 0s`,
		`steps: [{after: 1h, every: 30s, event: e}]`:                                                            `steps[1].every: must be at least 1m`,
		`steps: [{after: 1h, every: 1d at 09:00, event: e}]`:                                                    `steps[1].every: takes no time of day: write it once, such as after: 3d at 09:00`,
		"steps:\n- {after: 1h, event: e}\n- {after: 2h, event: e}":                                              `line 5: rule r: steps[2].name: must be set, because it would be "e", as that of step 1. A name tells which step has fired, also after steps were added or removed`,
		"steps:\n- {after: 1h, sql: select 1}\n- {after: 2h, sql: select 1}":                                    `steps[2].name: must be set, because it would be "sql", as that of step 1`,
		`steps: [{after: at 00:00, event: e}]`:                                                                  `"at 00:00": want a duration such as 90m or 48h, days, weeks or months such as 10d, 2w or 1 month, or a number of business days, hours or minutes, such as 3 business days. Write after: 0d at 00:00`,
		`steps: [{after: 1d, every: hour, event: e}]`:                                                           `such as 3 business days. Write every: 1 hour`,
		`steps: [{after: 2y, event: e}]`:                                                                        `such as 3 business days. Write after: 2 years`,
		`steps: [{after: [2d, 5d], event: e}]`:                                                                  `steps[1].after: a step has one delay: write a step for each, such as - {after: 2d, event: order.late}`,
		`steps: [{after: 1d, every: [1d, 2d], event: e}]`:                                                       `steps[1].every: a step repeats at one interval: write it alone, such as - {after: 1d, every: 2d, event: order.late}`,
		`done: "status" <> 'x'`:                                                                                 `line 3: YAML takes the quotes of "status" as those of the whole text, and more follows. Put the whole text into single quotes: done: '"status" <> ''x'''`,
		`table: "k10"."Recipient"`:                                                                              `line 3: YAML takes the quotes of "k10" as those of the whole text, and more follows. Put the whole text into single quotes: table: '"k10"."Recipient"'`,
		`where: !deleted`:                                                                                       `line 3: rule r: where: YAML takes an exclamation mark at the beginning as a tag, and not as a part of the text. SQL writes not deleted`,
		`where: [a, !deleted = 'x']`:                                                                            `rule r: where: YAML takes an exclamation mark at the beginning as a tag, and not as a part of the text. SQL writes not deleted = 'x'`,
		`where: &deleted`:                                                                                       `where: YAML takes &deleted as the name of an empty value: put the text into quotes`,
		`where: a < current_setting('x')::int`:                                                                  `where: current_setting depends on the session`,
		`where: a < pg_catalog.txid_current()`:                                                                  `where: txid_current depends on the session`,
		`steps: [{after: {interval: hold}, calendar: c, event: e}]`:                                             `steps[1].calendar: an interval of the data takes no calendar: its days count by the clocks of timezone`,
		`steps: [{after: {interval: hold}, every: 1 business day, event: e}]`:                                   `steps[1].every: a delay of 1 business day needs a calendar`,
		`steps: [{after: 1d, sql: "insert into s.l values ('order $key is late')"}]`:                            `steps[1].sql: $key stands within quotes, where it is text and no value: write the text and the value side by side, such as 'order ' || $key`,
		`steps: [{after: 1d, sql: "update s.l set $$a $number$$"}]`:                                             `steps[1].sql: $number stands within quotes`,
		`steps: [{after: 1d, sql: " -- x\n Commit"}]`:                                                           `steps[1].sql: a step cannot commit: its statement runs in the transaction that records the check`,
		`steps: [{after: 1d, sql: "set timezone = 'UTC'"}]`:                                                     `steps[1].sql: a step cannot set`,
		`steps: [{after: 213504 days, event: e}]`:                                                               `"213504 days": must be at most 3660d`,
		`steps: [{after: 213504d, event: e}]`:                                                                   `"213504d": must be at most 3660d`,
		`steps: [{after: 5124096 hours, event: e}]`:                                                             `"5124096 hours": must be at most 3660d`,
		`steps: [{after: 5124096 business hours, event: e}]`:                                                    `"5124096 business hours": must be at most 2600 business days or 20800 business hours`,
		`steps: [{after: 18446744073709551616d, event: e}]`:                                                     `"18446744073709551616d": want a whole number`,
		`steps: [{after: 1d12h, event: e}]`:                                                                     `"1d12h": a day counts by the clocks of the zone, and an hour is time that passes: write one of them, such as 36h, or 1d at 12:00`,
		`steps: [{after: 1h at 09:00, every: 24h, event: e}]`:                                                   `steps[1].every: must be days, weeks, months or business days, such as 2d`,
		`steps: [{after: 1h at 09:00, every: 36h, event: e}]`:                                                   `steps[1].every: must be days, weeks, months or business days`,
		`steps: [{after: 1h, every: 1 business day, event: e}]`:                                                 `steps[1].every: a delay of 1 business day needs a calendar`,
		`steps: [{after: 1h, every: 2d, times: 5, event: e}]`:                                                   ``,
		`steps: [{after: 1h, every: {interval: "make_interval(days => nag)"}, times: {count: nags}, event: e}]`: ``,
		`steps: [{after: 1h, every: {interval: nag}, times: 5, event: e}]`:                                      ``,
		`steps: [{after: 1h at 09:00, every: {interval: nag}, event: e}]`:                                       ``,
		`steps: [{after: 1h, every: 2d, times: {count: nags}, event: e}]`:                                       ``,
		`steps: [{after: 1h, times: {count: nags}, event: e}]`:                                                  `steps[1].times: needs every, such as every: 2d`,
		`steps: [{after: 1h, every: nag_days, event: e}]`:                                                       `steps[1].every: "nag_days": want a duration such as 90m or 48h, days, weeks or months such as 10d, 2w or 1 month, or a number of business days, hours or minutes, such as 3 business days. For a delay of the row write every: {interval: "..."} with SQL of type interval, such as make_interval(days => nag_days)`,
		`steps: [{after: 1h, every: 2d, times: max_nags, event: e}]`:                                            `steps[1].times: "max_nags": want a whole number from 1 to 999999999. For a number of the row write times: {count: max_nags}`,
		`steps: [{after: 1h, every: {interval: 2d}, event: e}]`:                                                 `steps[1].every.interval: 2d is the same for all rows: write every: 2d. The field interval takes an expression of SQL, such as make_interval(days => hold_days)`,
		`steps: [{after: 1h, every: 2d, times: {count: 5}, event: e}]`:                                          `steps[1].times.count: 5 is the same for all rows: write times: 5. The field count takes an expression of SQL, such as max_nags`,
		`steps: [{after: 1h, every: {days: nag_days}, event: e}]`:                                               `steps[1].every.days: there is no such field: want interval`,
		`steps: [{after: 1h, every: {}, event: e}]`:                                                             `steps[1].every: want interval: and an expression of SQL, such as make_interval(days => hold_days)`,
		`steps: [{after: 1h, every: 2d, times: {interval: n}, event: e}]`:                                       `steps[1].times.interval: there is no such field: want count`,
		`steps: [{after: 1h, every: 2d, times: [5], event: e}]`:                                                 `steps[1].times: want a text, not a list`,
		`steps: [{after: 1h, every: {interval: now() - a}, event: e}]`:                                          `steps[1].every.interval: now moves`,
		`steps: [{after: 1h, every: 2d, times: {count: "n; drop table s.t"}, event: e}]`:                        `steps[1].times.count: an expression has no semicolon`,
		`steps: [{after: 1h, event: e, name: "a#3"}]`:                                                           `steps[1].name: "a#3" ends as the name of a repetition does`,
		`steps: [{after: 1h, event: "a#3"}]`:                                                                    `steps[1].name: must be set, because a#3 is no name of a step`,
		"steps:\n- {before: 45d, event: e}\n- {before: 2 months, event: f}\n- {before: 7d, event: g}\n- {after: 0s, event: h}": ``,
		"steps:\n- {before: 7d, event: e}\n- {before: 45d, event: f}":                                                          `steps[2].before: 45d must be shorter than the 7d of step 1: list the earliest step first`,
		"steps:\n- {after: 1d, event: e}\n- {before: 1d, event: f}":                                                            `steps[2].before: 1d must be shorter than the 1d of step 1`,
		`steps: [{after: 0s, event: at.once}]`:                                                                                 ``,
		"steps:\n- {after: 1h, event: e}\n- {after: 2h, sql: select $id}":                                                      `line 5: rule r: steps[2].sql: there is no value $id: want $key, $since, $now, $step, $number or $payload`,
		`steps: [{after: 1h, sql: select $keys}]`:                                                                              `there is no value $keys`,
		`steps: [{after: 1h, sql: "select ($1)"}]`:                                                                             `there is no value $1`,
		`steps: [{after: 1h, sql: "select $a$ $id $a$, '$id', a$id, $key"}]`:                                                   ``,
	} {
		_, err := rule.Parse(strings.NewReader(fileOf(fields)))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n got %v\nwant %s", fields, err, want)
		case err != nil:
			if _, ok := errors.AsType[*rule.Problem](err); !ok {
				t.Errorf("%s: %T", fields, err)
			}
		}
	}
}

// What is wrong is told once: the field that is missing is the one that is misspelt.
func TestAMisspeltNameIsOneMistakeThatSaysWhatWasMeant(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`tabel: shop.orders`: `line 3: rule r: tabel: there is no such field: did you mean table?`,
		`kye: id`:            `line 3: rule r: kye: there is no such field: did you mean key?`,
		`stpes: []`:          `line 3: rule r: stpes: there is no such field: did you mean steps?`,
		`colour: red`: `line 3: rule r: colour: there is no such field: want one of name, table, key, entity, since, done, ` +
			`where, pause, payload, timezone, also, recheck, steps, recovered, met, overdue, cancel, role`,
		`steps: [{afer: 1h, event: e}]`:              `line 3: rule r: steps[1].afer: there is no such field: did you mean after?`,
		`steps: [{after: 1h, evnt: e}]`:              `line 3: rule r: steps[1].evnt: there is no such field: did you mean event?`,
		`steps: [{after: 1h, notfy: ops, text: hi}]`: `line 3: rule r: steps[1].notfy: there is no such field: did you mean notify?`,
		`steps: [{after: 1h, evry: 1d, times: 3, event: e}]`: `line 3: rule r: steps[1].evry: there is no such field: ` +
			`did you mean every?`,
		`steps: [{after: {intervall: hold}, event: e}]`: `line 3: rule r: steps[1].after.intervall: there is no such field: ` +
			`did you mean interval?`,
		`steps: [{after: 3 business days, calender: b, event: e}]`: `line 3: rule r: steps[1].calender: there is no such ` +
			`field: did you mean calendar?`,
		`also: {tabel: shop.payment, key: order_id}`: `line 3: rule r: also.tabel: there is no such field: did you mean table?`,
		`recovered: {evnt: over}`:                    `line 3: rule r: recovered.evnt: there is no such field: did you mean event?`,
	} {
		field, _, _ := strings.Cut(fields, ":")
		text := fileOf(fields)
		for typed, meant := range map[string]string{"tabel": "table: shop.orders", "kye": "key: id", "stpes": "steps: [{after: 1h, event: e}]"} {
			if field == typed {
				text = strings.Replace(text, meant, "", 1)
			}
		}
		if _, err := rule.Parse(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", fields, err, want)
		}
	}
	calendars := "calendars: {berlin: {timezone: Europe/Berlin}}\n"
	for text, want := range map[string]string{
		"ruls: []": "line 1: ruls: there is no such field: did you mean rules?",
		"calendars: {berlin: {timzone: Europe/Berlin}}\nrules: []": "line 1: calendars.berlin.timzone: there is no such " +
			"field: did you mean timezone?",
		calendars + fileOf(`steps: [{after: 3 business days, calendar: berln, event: e}]`): `line 4: rule r: ` +
			`steps[1].calendar: there is no calendar "berln" in the file: did you mean berlin?`,
		calendars + fileOf(`steps: [{after: 3 business days, calendar: shop, event: e}]`): `line 4: rule r: ` +
			`steps[1].calendar: there is no calendar "shop" in the file; it has berlin. For a name of the row write calendar: {name: shop}`,
	} {
		if _, err := rule.Parse(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestADelayThatCannotBeReadIsOneMistake(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		"{event: f}":              `line 5: rule r: steps[2].after: must be set, such as 48h`,
		"{after: , event: f}":     `line 5: rule r: steps[2].after: must be set, such as 48h`,
		"{after: soon, event: f}": `line 5: rule r: steps[2].after: "soon": want a duration`,
		"{after: [1h], event: f}": `line 5: rule r: steps[2].after: a step has one delay`,
		`{before: {interval: len}, event: f}`: `line 5: rule r: steps[2].before: takes a delay such as 45d. ` +
			`A length that the data hold counts back as after: {interval: "- (...)"}`,
		"{after: soon, calendar: c, event: f}": `line 5: rule r: steps[2].after: "soon": want a duration`,
	} {
		_, err := rule.Parse(strings.NewReader(fileOf("steps:\n- {after: 2h, event: e}\n- " + step + "\n- {after: 3h, event: g}")))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n got %v\nwant %s", step, err, want)
		}
	}
}

func TestAMistakeOfAFileIsToldWithItsLine(t *testing.T) {
	t.Parallel()
	calendar := func(fields string) string { return "calendars:\n  c: {" + fields + "}\nrules: []" }
	for text, want := range map[string]string{
		"":                                               "it is empty; a file without rules is written: rules: []",
		"# nothing":                                      "it is empty",
		"rules: []":                                      "",
		"calendars: {}":                                  "line 1: rules: must be set; a file without rules is written: rules: []",
		"- name: r":                                      "line 1: want fields, such as name: value, not a list",
		"rule: []":                                       "line 1: rule: there is no such field: did you mean rules?",
		"rules: []\n---\nrules: []":                      "line 2: the file has a second document",
		"rules: [":                                       "line 1: did not find expected node content",
		"rules:\n- []":                                   "line 2: want fields",
		"rules:\n\t- name: r":                            "line 2: indent with spaces, not with tabs",
		"rules:\n- name: r\n  \tkey: id":                 "line 3: indent with spaces, not with tabs",
		"rules:\n- name: @r":                             "line 2: found character that cannot start any token",
		"rules: {a: b}":                                  "line 1: rules: want a list, not fields",
		fileOf("") + fileOf("")[7:]:                      "rule r: name: the rule of line 4 has this name, too",
		calendar(`timezone: Mars`):                       "line 2: calendars.c: timezone: unknown time zone Mars: use a name of the IANA database",
		calendar(`timezone: Local`):                      `time zone "Local" is not the same on each machine`,
		calendar(`country: XX`):                          `calendars.c: country: the holidays of "XX" are not known. Known are AR, AT, AU,`,
		calendar(`country: DE, region: XX`):              `region: "XX" is not a region of DE: want one of BB, BE,`,
		calendar(`country: FR, region: XX`):              `region: the regions of FR are not known. Leave it out`,
		calendar(`country: AU`):                          `region: must be set, because AU has no common list of holidays: one of ACT, NSW,`,
		calendar(`country: CH`):                          `region: must be set, because CH has no common list of holidays: one of AG, AI,`,
		calendar(`workdays: [12-24 from 12:00]`):         `calendars.c: workdays: "12-24 from 12:00": want a whole day, such as 2026-12-24`,
		calendar(`workdays: [Friday]`):                   `calendars.c: workdays: "Friday": want a day such as 2026-12-24`,
		calendar(`holidays: {file: none.ics}`):           `line 2: calendars.c.holidays.file: none.ics: cannot be read: no such file or directory`,
		calendar(`holidays: {url: x}`):                   `line 2: calendars.c.holidays.url: there is no such field: want file`,
		calendar(`region: BE`):                           `region: "BE" has no country`,
		calendar(`country: NO`):                          ``,
		calendar(`hours: 09:00-17:00`):                   `hours: "09:00-17:00": want days and hours, such as "mon-fri 09:00-17:00"`,
		calendar(`hours: monday 09:00-17:00`):            `hours: "monday": want days such as mon, mon-fri or mon,wed, in three letters each`,
		calendar(`hours: mon 17:00-09:00`):               `hours: "17:00-09:00": must end after it begins. Hours past midnight are two`,
		calendar(`hours: mon 9-17`):                      `hours: "9-17": want hours such as 09:00-17:00, up to 24:00`,
		calendar(`hours: mon 00:00-24:30`):               `hours: "00:00-24:30": want hours`,
		calendar(`hours: "mon 09:00-12:00,11:00-17:00"`): `hours: "11:00-17:00": must begin after the hours before it have ended`,
		calendar(`hours: "mon-fri 09:00-17:00; fri 09:00-15:00"`): `hours: fri has hours twice`,
		calendar(`holidays: [2026-02-30]`):                        `holidays: "2026-02-30": want a day such as 2026-12-24, 12-24 for each year, or 12-24 from 12:00`,
		calendar(`holidays: [12-24 at 12:00]`):                    `want a day such as`,
		calendar(`holidays: [12-24 from noon]`):                   `"12-24 from noon": want a time of day such as 12-24 from 12:00`,
		calendar(`holidays: 2026-12-24`):                          `calendars.c.holidays: want a list, not "2026-12-24"`,
		"rules: []\n# " + strings.Repeat("x", 1<<20):              `the file has more than 1048576 bytes`,
	} {
		_, err := rule.Parse(strings.NewReader(text))
		if _, ok := errors.AsType[*rule.Problem](err); err != nil && !ok {
			t.Errorf("%.80s: %T, want a Problem", text, err)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s\n got %v\nwant %s", text, err, want)
		}
	}
}

// The decoder names the line at which the block begins.
func TestAnErrorOfSyntaxHasItsOwnLine(t *testing.T) {
	t.Parallel()
	const file = `rules:
  - name: a
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    where: channel <> 'test'
    steps:
      - {after: 2d, event: a}
      - {after: 4d, event: b}
  - name: b
    key: id
`
	for change, want := range map[string]string{
		"    since: placed_at -> since: placed_at":       "line 6: ",
		"    since: placed_at ->       since: placed_at": "line 5: ",
		"where: channel <> 'test' -> where: 'a' <> 'b'":  "line 7: did not find expected key",
		"where: channel <> 'test' -> where: a: b":        "line 7: mapping values are not allowed in this context",
		"after: 2d, event: a} -> after: 2d, event: a":    "line 9: ",
		"event: b} -> event: b}}":                        "line 10: ",
		"done: shipped_at -> done shipped_at":            "line 6: could not find expected ':'",
		"name: b -> name: 'b":                            "line 11: found unexpected end of stream",
		"  - name: b ->    - name: b":                    "line 11: ",
	} {
		from, to, _ := strings.Cut(change, " -> ")
		_, err := rule.Parse(strings.NewReader(strings.Replace(file, from, to, 1)))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
	}
}

func TestAMisspeltPlaceIsNotOfferedAsAColumn(t *testing.T) {
	t.Parallel()
	_, err := rule.Parse(strings.NewReader("rules:\n- {name: r, table: a.b, key: id, since: x, done: y, timezone: Europe/Berln, steps: [{after: 1h, event: e}]}"))
	const want = "unknown time zone Europe/Berln: use a name of the IANA database, such as Europe/Berlin"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %q at its end", err, want)
	}
}

func TestAllMistakesAreToldInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	_, err := rule.Parse(strings.NewReader("calendars: {c: {timezone: Mars}}\nrules:\n- {name: a}\n- {name: b, foo: 1}\n"))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"line 1: calendars.c", "line 3: rule a: table", "line 3: rule a: key", "line 3: rule a: since", "line 3: rule a: done", "line 3: rule a: steps", "line 4: rule b: foo"}
	if len(lines) != len(want) {
		t.Fatalf("%d mistakes, want %d:\n%s", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("mistake %d is %s, want %s", i+1, line, want[i])
		}
	}
}

func TestADelayIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"90m": "1h30m", "48h": "48h", "72h": "72h", "10d": "10d", "96h": "96h", "0s": "0s", "3 days": "3d", "1 day": "1d", "0d": "0s",
		"3 business days": "3 business days", "1  business day": "1 business day", "4 business hours": "4 business hours",
		"90 business minutes": "90 business minutes", "120 business minutes": "2 business hours", "1 business hours": "1 business hour",
	} {
		d, err := rule.ParseDelay(text)
		if err != nil || d.String() != want {
			t.Errorf("%s: %s, %v", text, d, err)
		}
		again, err := rule.ParseDelay(d.String())
		if err != nil || again != d {
			t.Errorf("%s: %+v, %v", d, again, err)
		}
	}
}

func TestATableIsNamedAsInSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"shop.orders": {"shop", "orders"}, "Shop.Orders": {"shop", "orders"}, `"Shop"."My ""Orders"""`: {"Shop", `My "Orders"`},
		`a."b.c"`: {"a", "b.c"}, "größe_1$": {"größe_1$"}, "": nil, "a.": nil, ".a": nil, `"a`: nil, `""`: nil, "a b": nil, "1a": nil, "a..b": nil,
	} {
		got, err := rule.ParseName(text)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestAnAliasStandsForItsValue(t *testing.T) {
	t.Parallel()
	file, err := rule.Parse(strings.NewReader(`rules:
- {name: a, table: s.t, key: id, since: x, done: y, steps: &steps [{after: 1h, event: e}]}
- {name: b, table: s.t, key: id, since: x, done: y, steps: *steps}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file.Rules[0].Steps, file.Rules[1].Steps); diff != "" {
		t.Error(diff)
	}
}

func TestAFileMaySayItsVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"version: 1\nrules: []\n":   "",
		"rules: []\n":               "",
		"version: 2\nrules: []\n":   "version: must be 1, which is the version of files that this binary reads",
		"version: one\nrules: []\n": "version: must be 1",
		"version: 1\n":              "rules: must be set",
	} {
		_, err := rule.Parse(strings.NewReader(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
