package testkit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/sql/pgtest"
	"github.com/prescient-go/prescient/testkit"
)

// lines is a rule about the lines of tenants, whose key has two columns.
const lines = `
rules:
  - name: line.open
    table: shop.line
    key: [tenant, id]
    since: opened_at
    done: closed_at
    also: {table: shop.closing, key: [tenant, line]}
    where: (select not c.closed from shop.closing c where c.tenant = line.tenant and c.line = line.id) is not false
    payload: [id]
    overdue: last
    steps:
      - after: 2d
        event: line.late
        notify: ops
        text: "{{.key}} is late"
      - after: 4d
        event: line.lost
        sql: >-
          insert into shop.lost values ($key.tenant, $key."id", $step)
    recovered: {event: line.fine}
`

const linesTable = `
	create table shop.line (tenant text, id int, opened_at timestamptz, closed_at timestamptz, primary key (tenant, id)) %s;
	create table shop.lost (tenant text, id int, step text);
	create table shop.closing (tenant text, line int, closed bool)`

func TestAKeyMayHaveTwoColumns(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]string{
		"of a table": fmt.Sprintf(linesTable, ""),
		"of a table with partitions": fmt.Sprintf(linesTable, "partition by hash (tenant)") + `;
			create table shop.line_0 partition of shop.line for values with (modulus 2, remainder 0);
			create table shop.line_1 partition of shop.line for values with (modulus 2, remainder 1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, testkit.Config{Registry: registry()})
			kit.DB.MustExec(pgtest.CreateSchema("shop"))
			kit.DB.MustExec(table)
			now := kit.Now()
			// The slash and the percent sign belong to the tenant. Two tenants have the same number.
			kit.DB.MustExec(`insert into shop.line values ('acme', 1, $1), ('acme', 2, $1), ('a/b', 1, $1), ('50%', 1, $1), ('50%2F', 1, $1)`, now)
			kit.Rules(rulesFile(t, lines))
			kit.DB.MustExec(`insert into shop.line values ('', 7, $1)`, now)
			kit.DB.MustExec(`insert into shop.line values ('it''s', -1, $1)`, now)
			kit.DB.MustExec(`insert into shop.line select 'many', n, $1 from generate_series(1, 4) as n`, now)
			kit.RunFor(day)
			kit.DB.MustExec(`update shop.line set closed_at = $1 where tenant = 'many' and id = 1`, kit.Now())
			kit.DB.MustExec(`update shop.line set id = 20 where tenant = 'many' and id = 2`)
			kit.DB.MustExec(`delete from shop.line where tenant = 'many' and id = 3`)
			kit.DB.MustExec(`insert into shop.closing values ('many', 4, true)`)
			kit.RunFor(2 * day)
			kit.DB.MustExec(`update shop.line set id = 3 where tenant = 'acme' and id = 2`)
			kit.DB.MustExec(`update shop.line set closed_at = $1 where tenant = '50%2F'`, kit.Now())
			key := jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "a%2Fb/1"}
			kit.RequireWaiting(key, now.Add(4*day))
			kit.RunFor(10 * day)
			kit.RequireEnded(key, jobs.OutcomeDone)
			var got []string
			for _, e := range kit.Events() {
				if e.Type == "line.late" || e.Type == "line.lost" || e.Type == "line.fine" {
					got = append(got, strings.TrimPrefix(e.Type, "line.")+" "+strings.TrimPrefix(e.Subject, "line/"))
				} else if !strings.Contains(string(e.Data), " is late") {
					t.Errorf("%s %s: %s", e.Type, e.Subject, e.Data)
				}
			}
			slices.Sort(got)
			want := []string{
				"fine 50%252F/1",
				"late /7", "late 50%25/1", "late 50%252F/1", "late a%2Fb/1", "late acme/1", "late acme/2", "late it's/-1", "late many/20",
				"lost /7", "lost 50%25/1", "lost a%2Fb/1", "lost acme/1", "lost acme/3", "lost it's/-1", "lost many/20",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got)\n%s", diff)
			}
			var lost []string
			if err := kit.DB.Select(&lost, `select tenant || ' ' || id || ' ' || step from shop.lost order by tenant collate "C", id`); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{" 7 line.lost", "50% 1 line.lost", "a/b 1 line.lost", "acme 1 line.lost", "acme 3 line.lost", "it's -1 line.lost", "many 20 line.lost"}, lost); diff != "" {
				t.Errorf("statements (-want +got)\n%s", diff)
			}
			kit.DB.MustExec(`insert into shop.line values ('acme', 9, $1)`, kit.Now())
			kit.RequireWaiting(jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "acme/9"}, kit.Now().Add(2*day))
			kit.DB.MustExec(`truncate shop.line`)
			told := len(kit.Events())
			kit.RunFor(5 * day)
			if events := kit.Events(); len(events) > told {
				t.Errorf("%d events for rows that are gone", len(events)-told)
			}
		})
	}
}

// Both columns are renamed, and one of them gets a wider type. What has fired stays, and the key is the same.
func TestTheColumnsOfAKeyMayBeRenamedAndWidened(t *testing.T) {
	t.Parallel()
	kit := testkit.New(t, testkit.Config{Registry: registry()})
	kit.DB.MustExec(pgtest.CreateSchema("shop"))
	kit.DB.MustExec(fmt.Sprintf(linesTable, ""))
	kit.Rules(rulesFile(t, lines))
	kit.DB.MustExec(`insert into shop.line values ('acme', 1, $1)`, kit.Now())
	kit.RunFor(3 * day)
	kit.DB.MustExec(`alter table shop.line rename tenant to owner; alter table shop.line rename id to no`)
	// Before the file says so.
	kit.DB.MustExec(`insert into shop.line values ('50%', 2, $1)`, kit.Now())
	kit.DB.MustExec(`insert into shop.line values ('acme', 3, $1)`, kit.Now())
	kit.DB.MustExec(`delete from shop.line where no = 3`)
	kit.RequireWaiting(jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "50%25/2"}, kit.Now().Add(2*day))
	kit.RequireEnded(jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "acme/3"}, jobs.OutcomeCancelled)
	kit.DB.MustExec(`alter table shop.line rename owner to tenant`)
	renamed := rulesFile(t, strings.NewReplacer("key: [tenant, id]", "key: [tenant, no]", `$key."id"`, "$key.no", "line.id", "line.no",
		"payload: [id]", "payload: [no]").Replace(lines))
	kit.Rules(renamed)
	var drops []string
	if err := kit.DB.Select(&drops, `select format('drop trigger %I on shop.line', tgname) from pg_trigger where tgrelid = 'shop.line'::regclass and not tgisinternal
		union all select format('drop function prescient_rules.%I', proname) from pg_proc where pronamespace = 'prescient_rules'::regnamespace and proname like '%line_open%row'`); err != nil {
		t.Fatal(err)
	}
	kit.DB.MustExec(strings.Join(drops, "; ") + "; alter table shop.line alter no type bigint; alter table shop.closing alter line type bigint; alter table shop.lost alter id type bigint")
	kit.Rules(renamed)
	kit.DB.MustExec(`insert into shop.line values ('acme', 3000000000, $1)`, kit.Now())
	kit.RunFor(10 * day)
	var got []string
	for _, e := range kit.Events() {
		if strings.HasPrefix(e.Type, "line.") {
			got = append(got, strings.TrimPrefix(e.Type, "line.")+" "+strings.TrimPrefix(e.Subject, "line/"))
		}
	}
	slices.Sort(got)
	want := []string{"late 50%25/2", "late acme/1", "late acme/3000000000", "lost 50%25/2", "lost acme/1", "lost acme/3000000000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	// Without a column that it reads, a trigger finds the columns of the key alone.
	kit.DB.MustExec(`alter table shop.line drop column closed_at cascade; alter table shop.line rename no to nr`)
	kit.DB.MustExec(`insert into shop.line values ('50%', 5, $1), ('a/b', 6, $1)`, kit.Now())
	kit.RequireWaiting(jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "50%25/5"}, kit.Now().Add(15*time.Minute))
	kit.DB.MustExec(`delete from shop.line where nr = 6`)
	kit.RequireEnded(jobs.Key{JobExec: "line.open", EntityName: "line", EntityKey: "a%2Fb/6"}, jobs.OutcomeCancelled)
}
