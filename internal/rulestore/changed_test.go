package rulestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/sql/pgtest"
)

const unanswered = `
rules:
  - name: order.stuck
    table: shop.orders
    key: id
    since: changed(channel)
    done: shipped_at
    steps: [{after: 2d, event: order.stuck}]
`

// When a column changed is kept over the end of a row, another key and an apply of another file.
func TestWhenAColumnChangedIsKept(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "some queries with changed join a local table with a distributed one")
	for name, partitioned := range map[string]bool{"a table": false, "a table with partitions": true} {
		t.Run(name, func(t *testing.T) {
			s := newShopAt(t, noon)
			if partitioned {
				s.exec(`drop table shop.orders; create table shop.orders (id bigint primary key, channel text default 'web', shipped_at timestamptz) partition by range (id);
					create table shop.first partition of shop.orders default`)
			}
			changed := func(want string) {
				t.Helper()
				var got []string
				if err := s.db.Select(&got, "select entity_key || ' ' || to_char(changed_at at time zone 'UTC', 'DD') from prescient.rule_changed order by entity_key"); err != nil || strings.Join(got, ", ") != want {
					t.Errorf("changed %q, want %q, %v", got, want, err)
				}
			}
			s.exec("insert into shop.orders (id) values (1), (2), (3)")
			if plan := s.apply(unanswered); len(plan.Rules[0].Warnings) != 1 || !strings.Contains(plan.Rules[0].Warnings[0], "their clocks start with the apply") {
				t.Errorf("warnings %q", plan.Rules[0].Warnings)
			}
			s.wants("apply", "1 at 03-06 12:00, 2 at 03-06 12:00, 3 at 03-06 12:00")
			s.now = s.now.Add(24 * time.Hour)
			s.exec("insert into shop.orders (id) values (4), (5)")
			s.exec("update shop.orders set channel = 'app' where id = 1; update shop.orders set channel = 'web' where id = 2")
			changed("1 05, 4 05, 5 05")
			s.wants("a change", "1 at 03-05 12:15 came 03-05 12:00, 2 at 03-06 12:00, 3 at 03-06 12:00, 4 at 03-05 12:15 came 03-05 12:00, 5 at 03-05 12:15 came 03-05 12:00")
			s.exec("update shop.orders set id = 7 where id = 1; delete from shop.orders where id = 4; update shop.orders set shipped_at = now() where id = 5")
			if plan := s.apply(strings.Replace(unanswered, "2d", "3d", 1)); len(plan.Rules[0].Warnings) != 0 {
				t.Errorf("warnings of another apply %q", plan.Rules[0].Warnings)
			}
			s.wants("another delay", "2 at 03-07 12:00, 3 at 03-07 12:00, 5 at 03-05 12:15 came 03-05 12:00, 7 at 03-08 12:00 came 03-05 12:00")
			changed("5 05, 7 05")
			if _, err := s.store.Remove(t.Context(), "order.stuck", nil); err != nil {
				t.Fatal(err)
			}
			changed("")
		})
	}
}

// A trigger reads a row in another way if a name or an expression of the rule, or the session, is not as usual.
func TestAWriteOfAnotherColumnIsNoChangeHoweverTheTriggerReadsTheRow(t *testing.T) {
	t.Parallel()
	const key, kept, moved = "update shop.orders set id = -id", "03-04", "03-05"
	for name, test := range map[string]struct{ before, write, want string }{
		"usual, another column":        {"", key, kept},
		"usual, a change":              {"", "update shop.orders set channel = 'app'", moved},
		"abbreviations":                {"set local timezone_abbreviations = 'Australia'", key, kept},
		"abbreviations, a change":      {"set local timezone_abbreviations = 'Australia'", "update shop.orders set channel = 'app'", moved},
		"renamed":                      {"alter table shop.orders rename amount to sum", key, kept},
		"renamed, a change":            {"alter table shop.orders rename amount to sum", "update shop.orders set channel = 'app'", moved},
		"the changed column renamed":   {"alter table shop.orders rename channel to way", key, kept},
		"the changed column, a change": {"alter table shop.orders rename channel to way", "update shop.orders set way = 'app'", moved},
		"an error":                     {"", "update shop.orders set id = -id, amount = 0", kept},
		"an error, a change":           {"", "update shop.orders set channel = 'app', amount = 0", moved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.apply(with(unanswered, "where: 1 / amount > 0"))
			s.exec("insert into shop.orders (id) values (1)")
			s.now = s.now.Add(24 * time.Hour)
			s.exec(test.before + "; " + test.write)
			var got string
			if err := s.db.Get(&got, "select to_char(changed_at at time zone 'UTC', 'MM-DD') from prescient.rule_changed"); err != nil || got != test.want {
				t.Errorf("changed on %q, want %q, %v", got, test.want, err)
			}
		})
	}
}

// A date and a change may each start the clock. What has fired for the date has not fired for a later change.
func TestAStepThatHasFiredForADateIsStillToComeForALaterChange(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "some queries with changed join a local table with a distributed one")
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add due date")
	file := strings.Replace(with(unanswered, "overdue: fire"), "changed(channel)", "[due, changed(channel)]", 1)
	s.apply(file)
	s.exec("insert into shop.orders (id, due) values (1, '2030-03-05'), (2, '2030-03-05')")
	s.exec(`insert into prescient.rule_fired (job, entity_key, since, start, step)
		select job, entity_key, '2030-03-05 00:00+00', '2030-03-05 00:00:00', 'order.stuck' from prescient.future_job`)
	s.now = noon.AddDate(0, 0, 4)
	s.exec("update shop.orders set channel = 'app' where id = 1")
	s.exec("delete from prescient.future_job")
	s.now = noon.AddDate(0, 0, 7)
	if plan, err := s.store.Again().Plan(t.Context(), parse(t, file), nil); err != nil || plan.Rules[0].Begin != 1 {
		t.Errorf("%d rows begin to wait, want 1, %v", plan.Rules[0].Begin, err)
	}
	if _, err := s.store.Again().Apply(t.Context(), parse(t, file), nil); err != nil {
		t.Fatal(err)
	}
	s.wants("the change", "1 at 03-11 12:15 came 03-11 12:00")
}

// The texts of a rule may have anything in braces, such as a path in a document.
func TestAPathInADocumentIsNoNameOfATemplate(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "some queries with changed join a local table with a distributed one")
	s := newShopAt(t, noon)
	s.exec("alter table shop.orders add data jsonb not null default '{}'")
	s.exec(`insert into shop.orders (id, data) values (1, '{"key": "2030-03-05", "name": "2030-03-04"}')`)
	s.apply(strings.Replace(unanswered, "changed(channel)", `["(data #>> '{key}')::date", "(data #>> '{name}')::timestamp", changed(channel)]`, 1))
	s.wants("apply", "1 at 03-07 00:00")
}

func TestAMistakeInChangedIsNamed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	for since, want := range map[string]string{
		"changed(chanel)":                       "since: changed takes columns of the table: table shop.orders has no column chanel",
		"changed(channel || note)":              "since: changed takes columns of the table",
		"changed()":                             "since: changed takes columns of the table",
		"[changed(channel), changed(note)]":     "since[2]: changed is there twice",
		"greatest(placed_at, changed(channel))": "since: changed(...) stands alone: write a list",
	} {
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(unanswered, "changed(channel)", since, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", since, err)
		}
	}
	s.apply(strings.Replace(unanswered, "changed(channel)", "[placed_at, 'changed(channel, note)']", 1))
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("20 12:00") + ")")
	s.wants("two columns", "1 at 03-22 12:00")
	// An instant that stands for never is later than any change.
	s.exec("insert into shop.orders (id, placed_at) values (2, 'infinity')")
	s.exec("update shop.orders set placed_at = 'infinity', channel = 'app' where id = 1")
	s.wants("never: the next check ends it", "1 at 03-22 12:00")
	s.exec("update shop.orders set placed_at = null where id = 2")
	s.wants("null", "1 at 03-22 12:00, 2 at 03-04 12:15 came 03-04 12:00")
}
