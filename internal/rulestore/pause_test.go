package rulestore_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const held = `
rules:
  - name: order.held
    table: shop.orders
    key: id
    since: placed_at
    done: shipped_at
    pause: channel = 'hold'
    steps: [{after: 2d, event: order.held}]
`

// noted wants what triggers have noted of pauses, by key, as days and hours of March.
func (s *shop) noted(want string) {
	s.t.Helper()
	var got []string
	if err := s.db.Select(&got, `
		select c.entity_key || ' ' || array_to_string(array(
			select to_char(p at time zone 'UTC', 'DD.HH24') from unnest(c.pauses) with ordinality as u (p, n) order by n
		), '-')
		from prescient.rule_changed c order by c.entity_key`); err != nil || strings.Join(got, ", ") != want {
		s.t.Errorf("noted %q, want %q, %v", got, want, err)
	}
}

func TestTriggersNoteWhenRowsArePaused(t *testing.T) {
	t.Parallel()
	for name, partitioned := range map[string]bool{"a table": false, "a table with partitions": true} {
		t.Run(name, func(t *testing.T) {
			s := newShopAt(t, noon)
			if partitioned {
				s.exec(`drop table shop.orders; create table shop.orders (id bigint primary key, channel text default 'web', placed_at timestamptz, shipped_at timestamptz) partition by range (id);
					create table shop.first partition of shop.orders default`)
			}
			s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'hold', " + at("04 06:00") + "), (2, 'web', " + at("04 06:00") + ")")
			if plan := s.apply(held); len(plan.Rules[0].Warnings) != 1 || !strings.Contains(plan.Rules[0].Warnings[0], "their pauses begin with the apply") {
				t.Errorf("warnings %q", plan.Rules[0].Warnings)
			} else if plan.Rules[0].Paused != 1 {
				t.Errorf("%d rows are paused, want 1", plan.Rules[0].Paused)
			}
			s.noted("")
			s.wants("apply", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-06 06:00")
			s.now = s.now.Add(2 * time.Hour)
			s.exec("insert into shop.orders (id, channel, placed_at) values (3, 'hold', " + at("01 06:00") + "), (4, 'hold', " + at("04 14:00") + "), (5, 'web', " + at("04 14:00") + ")")
			s.exec("update shop.orders set channel = 'hold' where id = 2; update shop.orders set channel = 'app' where id = 1; update shop.orders set placed_at = placed_at + interval '1 s' where id = 4")
			s.noted("1 04.12-04.14, 2 04.14, 3 04.14, 4 04.14")
			s.now = s.now.Add(2 * time.Hour)
			s.exec("update shop.orders set channel = 'app' where id = 2; update shop.orders set channel = 'hold', id = 7 where id = 1; delete from shop.orders where id = 3")
			s.exec("update shop.orders set channel = 'app'; update shop.orders set channel = 'hold' where id = 2")
			s.noted("2 04.14-04.16-04.16, 4 04.14-04.16, 7 04.12-04.14-04.16-04.16")
			s.wants("no run has come", "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 14:15, 3 at 03-04 14:15 came 03-04 14:00, 4 at 03-04 14:15, 5 at 03-06 14:00, 7 at 03-04 16:15 came 03-04 12:00")
			if plan := s.apply(held); len(plan.Rules[0].Warnings)+len(plan.Rules[0].Triggers) != 0 {
				t.Errorf("the same file: %+v", plan.Rules[0])
			}
			if _, err := s.store.Remove(t.Context(), "order.held", nil); err != nil {
				t.Fatal(err)
			}
			s.noted("")
		})
	}
}

// They would all fire in the slot after the pause.
func TestOverdueIsDemandedForStepsThatPassedBeforeARowWasPaused(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'hold', " + at("01 12:00") + "), (2, 'hold', " + at("03 12:00") + ")")
	if p := s.plan(held).Rules[0]; p.Overdue != 1 || !p.Refused || p.Paused != 2 || p.Begin != 2 {
		t.Errorf("planned %+v", p)
	}
	_, err := s.store.Apply(t.Context(), parse(t, held), nil)
	if e, ok := errors.AsType[*rulestore.OverdueError](err); !ok || e.Rows != 1 {
		t.Errorf("applied with %v", err)
	}
	const waits = "1 at 03-04 12:15 came 03-04 12:00, 2 at 03-04 12:15 came 03-04 12:00"
	s.apply(with(held, "overdue: skip"))
	s.wants("apply", waits)
	s.exec("update shop.orders set channel = 'web'")
	s.wants("they go on", waits)
}

// While the condition cannot be computed, a pause goes on. A row that was not paused before has none.
func TestAPauseGoesOnWhileItsConditionFails(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(strings.Replace(held, "channel = 'hold'", "100 / amount > 50", 1))
	s.exec("insert into shop.orders (id, amount, placed_at) select i, 10, " + at("04 12:00") + " from generate_series(1, 4) as i")
	s.now = s.now.Add(time.Hour)
	s.exec("update shop.orders set amount = 1 where id in (1, 2)")
	s.now = s.now.Add(time.Hour)
	s.exec("update shop.orders set amount = 0 where id < 4")
	s.now = s.now.Add(time.Hour)
	s.exec("update shop.orders set amount = 10 where id in (1, 3)")
	s.exec("update shop.orders set amount = 1 where id in (2, 4)")
	s.noted("1 04.13-04.15, 2 04.13, 4 04.15")
	s.now = s.now.Add(time.Hour)
	s.exec("update shop.orders set amount = 0 where id = 4")
	s.exec("update shop.orders set amount = 1 where id = 3")
	s.noted("1 04.13-04.15, 2 04.13, 3 04.16, 4 04.15")
}

// A transaction with an older snapshot does not see the rule that gives its table the triggers.
func TestAPauseEndsInATransactionThatBeganBeforeTheRuleHadPauses(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "a snapshot of the coordinator does not hold for the rules, which are on a worker")
	s := newShopAt(t, noon)
	s.apply(strings.Replace(held, "    pause: channel = 'hold'\n", "", 1))
	s.exec("insert into shop.orders (id, channel, placed_at) values (7, 'hold', " + at("04 12:00") + ")")
	tx := s.before()
	s.now = s.now.Add(2 * time.Hour)
	s.apply(held)
	tx.MustExec("update shop.orders set channel = 'web'")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.noted("7 04.12-04.12")
	s.plan(strings.Replace(held, "2d", "3d", 1))
}

// before begins a transaction of the application at the clock of the shop, whose snapshot is of now.
func (s *shop) before() *sqlx.Tx {
	s.t.Helper()
	tx, err := s.db.BeginTxx(s.t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec("select set_config('prescient_caller.clock', $1, true)", s.now.Format(time.RFC3339Nano)); err != nil {
		s.t.Fatal(err)
	}
	return tx
}

// A pause of the earlier condition ends with the apply, and one of the new condition begins with it.
func TestAnEditOfPauseKeepsThePausesThatWereNoted(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(held)
	s.exec("insert into shop.orders (id, channel, placed_at) select i, 'hold', " + at("04 12:00") + " from generate_series(1, 3) as i")
	s.now = s.now.Add(2 * time.Hour)
	s.apply(strings.Replace(held, "channel = 'hold'", "amount > 1", 1))
	s.now = s.now.Add(2 * time.Hour)
	s.exec("update shop.orders set amount = 2 where id < 3")
	s.now = s.now.Add(2 * time.Hour)
	s.exec("update shop.orders set amount = 1 where id = 1")
	s.noted("1 04.12-04.14-04.16-04.18, 2 04.12-04.14-04.16, 3 04.12")
}

func TestAMistakeInPauseIsNamed(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec(payments)
	for pause, want := range map[string]string{
		"chanel = 'hold'": "pause: table shop.orders has no column chanel",
		"placed_at":       "pause: placed_at is of type timestamp with time zone: want a condition",
		"exists (select from shop.payment p where p.order_id = orders.id)": "pause: is about columns of the row alone",
	} {
		_, err := s.store.Plan(t.Context(), parse(t, strings.Replace(held, "channel = 'hold'", pause, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pause, err)
		}
	}
}

// A key column has another name, which the triggers do not know yet.
func TestADeleteOfNoRowForgetsNothing(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(held)
	s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'hold', " + at("04 12:00") + "), (2, 'hold', " + at("04 12:00") + ")")
	s.exec("alter table shop.orders rename id to number")
	s.exec("delete from shop.orders where number = 3")
	s.noted("1 04.12, 2 04.12")
	s.exec("delete from shop.orders where number = 2")
	s.noted("1 04.12")
}

// What was noted of the rows of before does not count for rows with their keys, such as those of an import.
func TestATruncateForgetsWhatWasNoted(t *testing.T) {
	t.Parallel()
	for name, partitioned := range map[string]bool{"a table": false, "a table with partitions": true} {
		t.Run(name, func(t *testing.T) {
			s := newShopAt(t, noon)
			if partitioned {
				s.exec(`drop table shop.orders; create table shop.orders (id bigint primary key, channel text default 'web', placed_at timestamptz, shipped_at timestamptz) partition by range (id);
					create table shop.first partition of shop.orders default`)
			}
			both := held + strings.TrimPrefix(unanswered, "\nrules:\n")
			s.apply(both)
			s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'hold', " + at("04 06:00") + "), (2, 'web', " + at("04 06:00") + ")")
			s.now = s.now.Add(time.Hour)
			s.exec("update shop.orders set channel = 'web'; truncate shop.orders")
			s.noted("")
			s.exec("insert into shop.orders (id, channel, placed_at) values (1, 'web', " + at("04 06:00") + ")")
			s.noted("1 ") // by order.stuck
			s.exec("drop trigger " + get[string](t, s.db, "select quote_ident(tgname) from pg_trigger where tgname ~ 'held.*_truncate'") + " on shop.orders")
			if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) != 1 || len(faults[0].Missing) != 1 {
				t.Errorf("faults without a trigger %+v, %v", faults, err)
			}
			if plan := s.apply(both); len(plan.Rules[0].Triggers) != 1 || len(plan.Rules[1].Triggers) != 0 {
				t.Errorf("triggers that were missing: %+v", plan.Rules)
			}
			if faults, err := s.store.Faults(t.Context()); err != nil || len(faults) > 0 {
				t.Errorf("faults after the apply %+v, %v", faults, err)
			}
			for _, rule := range []string{"order.held", "order.stuck"} {
				if _, err := s.store.Remove(t.Context(), rule, nil); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.count("select (select count(*) from pg_trigger where tgname like 'prescient%') + (select count(*) from pg_proc where proname like 'prescient_order%')"); n != 0 {
				t.Errorf("%d triggers and functions after the removal", n)
			}
		})
	}
}

// A slot may begin between the clock of a trigger and the wait that it asks for.
func TestARowIsLookedAtAlthoughASlotBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(held)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("04 12:00") + ")")
	for _, resume := range []string{"'1'|again => true", "'2'|again => false"} { // row 2 counts from now on
		key, again, _ := strings.Cut(resume, "|")
		s.exec("select prescient.rule_resume('order.held', 'orders', " + key + ", array[" + at("04 12:00") + " - interval '1 s'], " +
			at("04 12:00") + ", " + again + ", looked_at => " + at("04 12:00") + " - interval '1.000001 s')")
	}
	s.wants("after the resume", "1 at 03-04 12:15, 2 at 03-04 12:15 from 03-04 11:45")
}
