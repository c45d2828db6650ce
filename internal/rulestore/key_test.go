package rulestore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	pgsql "github.com/prescient-go/prescient/sql"
)

// open is a rule about the lines of orders, whose key has two columns.
const open = `
rules:
  - name: line.open
    table: shop.line
    key: [order_id, line]
    since: placed_at
    done: packed_at
    steps: [{after: 2d, event: line.open}, {after: 4d, sql: "delete from shop.line where order_id = $key.order_id and line = $key.line"}]
`

func newLines(t *testing.T, change string) *shop {
	s := newShopAt(t, noon)
	s.exec(`create table shop.line (order_id bigint, line text, placed_at timestamptz, packed_at timestamptz, maybe int,
		primary key (order_id, line), unique (order_id, maybe));` + change)
	return s
}

// The pages of a table divide the lines of an order.
func TestAnApplyReadsAKeyOfTwoColumnsPageByPage(t *testing.T) {
	t.Parallel()
	s := newLines(t, "")
	s.exec(`insert into shop.line select n / 150, 'n/' || n, ` + at("04 11:00") + ` from generate_series(1, 420) as n`)
	plan := s.plan(open)
	if len(plan.Rules) != 1 || plan.Rules[0].Begin != 420 {
		t.Errorf("plan: %+v", plan.Rules)
	}
	s.apply(open)
	const waits = `select count(*) from prescient.future_job f join shop.line l on f.entity_key = l.order_id || '/' || replace(l.line, '/', '%2F')
		where f.next_check_at = ` + "timestamptz '2030-03-06 11:00+00'"
	if n := s.count(waits); n != 420 {
		t.Errorf("%d rows wait, want 420", n)
	}
	// An apply that was ended goes on behind the last key of its pages.
	s.exec(`delete from prescient.future_job; update prescient.rule set state = 'applying', position = '1/n%2F200'`)
	s.apply(open)
	if n, of := s.count(waits), s.count(`select count(*) from shop.line where (order_id, line) > (1, 'n/200')`); n != of {
		t.Errorf("%d rows wait, want %d", n, of)
	}
}

func TestPlanRefusesAKeyWhoseColumnsDoNotIdentifyARow(t *testing.T) {
	t.Parallel()
	s := newLines(t, `
		create table shop.part (tenant int, id int primary key, placed_at timestamptz, packed_at timestamptz);
		create table shop.plain (tenant int, id int, placed_at timestamptz, packed_at timestamptz);
		create table shop.parted (tenant int, id int, placed_at timestamptz, packed_at timestamptz) partition by list (tenant);
		create table shop.payment (order_id int, line int, day date)`)
	for change, want := range map[string]string{
		"": "",
		"key: [order_id, line] -> key: [line, order_id]":                 "line 5: rule line.open: key: columns line, order_id have no primary key and no unique constraint of their own: write key: [order_id, line], by which table shop.line identifies a row",
		"key: [order_id, line] -> key: [order_id, maybe]":                "key: column maybe may be null",
		"key: [order_id, line] -> key: order_id":                         "key: column order_id has no primary key and no unique constraint of its own: write key: [order_id, line], by which",
		"shop.line\n -> shop.part\n; [order_id, line] -> [tenant, id]":   "key: columns tenant, id have no primary key and no unique constraint of their own: write key: id, by which table shop.part",
		"shop.line\n -> shop.plain\n; [order_id, line] -> [tenant, id]":  "key: columns tenant, id have no primary key and no unique constraint of their own: name a column",
		"shop.line\n -> shop.parted\n; [order_id, line] -> [tenant, id]": "key: columns tenant, id have no unique constraint of their own, which PostgreSQL requires to contain the partition key of table shop.parted, LIST (tenant). Add one",
		"$key.order_id -> $key.ordr_id":                                  "steps[2].sql: there is no value $key.ordr_id, because the key has several columns: want $key.order_id, $key.line",
		"line = $key.line -> line = $key.order_id":                       "steps[2].sql: = does not go between type text and type bigint",
		"key: [order_id, line] -> key: [order_id, lin]":                  "key: table shop.line has no column lin",
		"done: packed_at -> done: (select true from shop.payment p where p.order_id = line.order_id)\n    also: {table: shop.payment, key: order_id}":            "also: key: has 1 column, and the key of the rule 2",
		"done: packed_at -> done: (select true from shop.payment p where p.order_id = line.order_id)\n    also: {table: shop.payment, key: [order_id, line]}":    "also: column line is of type integer, and key line of type text: their texts differ",
		"done: packed_at -> done: (select true from shop.payment p where p.order_id = line.order_id)\n    also: {table: shop.payment, key: [order_id, orderid]}": "also: table shop.payment has no column orderid",
	} {
		file := open
		if !strings.Contains(change, "$key") {
			file = file[:strings.Index(file, ", {after: 4d")] + "]"
		}
		for _, c := range strings.Split(change, "; ") {
			was, is, _ := strings.Cut(c, " -> ")
			file = strings.Replace(file, was, is, 1)
		}
		_, err := s.planned(file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
	}
}

func (s *shop) planned(file string) (rulestore.Plan, error) {
	parsed, err := rule.Parse(strings.NewReader(file))
	if err != nil {
		return rulestore.Plan{}, err
	}
	return s.store.Plan(s.t.Context(), parsed, nil)
}

func TestDoctorTellsWhatAKeyOfTwoColumnsLacks(t *testing.T) {
	t.Parallel()
	s := newLines(t, "")
	s.apply(open)
	loose := func() string {
		faults, err := s.store.Faults(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, f := range faults {
			list = append(list, strings.Join(f.Loose, ", ")+strings.Join(f.Columns, ", ")+strings.Join(f.Keys, ", "))
		}
		return strings.Join(list, "; ")
	}
	for _, c := range []struct{ change, want string }{
		{"", ""},
		{"alter table shop.line drop constraint line_pkey", "add unique (order_id, line)"},
		{"alter table shop.line alter line drop not null", "alter column line set not null, add unique (order_id, line)"},
		{"alter table shop.line add unique (line, order_id)", "alter column line set not null, add unique (order_id, line)"},
		{"alter table shop.line alter line set not null, add primary key (order_id, line)", ""},
		{"insert into shop.line values (1, repeat('x', 500), now())", "1/xxxxxxxxxxxxxxxxxx..."},
		{"delete from shop.line; alter table shop.line rename line to no", `"line"`},
	} {
		s.exec(c.change)
		if got := loose(); got != c.want {
			t.Errorf("%s: %q, want %q", c.change, got, c.want)
		}
	}
}

// A join would read the table as a whole, if the server does not know how few keys there are.
func TestTheRowsOfKeysOfTwoColumnsAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	s := newLines(t, "")
	s.exec(`insert into shop.line select n / 10, n, now() from generate_series(1, 20000) as n; analyze shop.line`)
	file := parse(t, open)
	applied, err := s.store.Understand(t.Context(), file, file.Rules[0])
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for n := range 2000 {
		keys = append(keys, fmt.Sprintf("%d/%d", n/10, n))
	}
	var plan []string
	err = pgsql.InTx(t.Context(), s.db, func(tx *sqlx.Tx) error {
		return tx.SelectContext(t.Context(), &plan, "explain "+applied.RowsQuery(), append(applied.Parameters(append(keys, "7", "1/2/3")), noon)...)
	})
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "Index") || strings.Contains(text, "Seq Scan") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Applications write with any settings of their sessions.
func TestTheTextOfAnInstantInAKeyIsTheSameInEachSession(t *testing.T) {
	t.Parallel()
	for name, parted := range map[string]string{
		"a table":                 "",
		"a table with partitions": " partition by range (day); create table shop.first partition of shop.visit default",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.exec("create table shop.visit (day date, at timestamptz, came timestamp(3), gone timestamp, primary key (day, at, came))" + parted)
			s.apply(`rules: [{name: visit.long, table: shop.visit, key: [day, at, came], since: came, done: gone, steps: [{after: 2d, event: visit.long}]}]`)
			const tokyo = "set local timezone = 'Asia/Tokyo'; set local datestyle = 'SQL, DMY'; "
			s.exec(tokyo + "insert into shop.visit values ('4/3/2030', '4/3/2030 21:00:00.123456', '4/3/2030 11:00:00.5')")
			const key = "2030-03-04/2030-03-04 12:00:00.123456+00/2030-03-04 11:00:00.5"
			s.wants("insert", key+" at 03-06 11:15")
			s.exec("delete from prescient.future_job")
			s.store = s.store.Again()
			s.exec("alter database " + s.name() + " set timezone = 'America/New_York'; alter database " + s.name() + " set datestyle = 'German'")
			s.apply(`rules: [{name: visit.long, table: shop.visit, key: [day, at, came], since: came, done: gone, steps: [{after: 2d, event: visit.long}]}]`)
			s.wants("apply", key+" at 03-06 11:15")
			s.exec(tokyo + "update shop.visit set day = '5/3/2030'")
			s.wants("update", strings.Replace(key, "2030-03-04/", "2030-03-05/", 1)+" at 03-06 11:15")
			s.exec("set local timezone = 'UTC'; delete from shop.visit")
			s.wants("delete", "")
		})
	}
}

func (s *shop) name() (name string) {
	s.t.Helper()
	if err := s.db.GetContext(s.t.Context(), &name, "select quote_ident(current_database())"); err != nil {
		s.t.Fatal(err)
	}
	return name
}
