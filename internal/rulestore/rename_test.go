package rulestore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

const fires = `
	insert into prescient.rule_fired (job, entity_key, since, step)
	select prescient.find_job('order.unshipped'), o.id::text, o.placed_at, $2 from shop.orders o where o.id::text = $1`

// fires records that a step has fired for an order, as a check does.
func (s *shop) fires(id, step string) {
	s.t.Helper()
	s.exec(fires, id, step)
}

// fired lists the steps that have fired, such as "1 primary".
func (s *shop) fired() string {
	s.t.Helper()
	var list []string
	if err := s.db.SelectContext(s.t.Context(), &list, `
		select entity_key || ' ' || replace(step, 'order.unshipped.', '') from prescient.rule_fired order by entity_key, step`); err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

func (s *shop) wantsFired(what, want string) {
	s.t.Helper()
	if got := s.fired(); got != want {
		s.t.Errorf("%s: fired %q, want %q", what, got, want)
	}
}

func TestAChangedKeyIsTheSameRow(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:00") + "), (2, " + at("04 11:50") + ")")
	s.fires("1", "order.unshipped.primary")
	s.exec("update prescient.future_job set payload = '{\"from\": \"2030-03-03T12:00:00Z\"}', check_count = 3 where entity_key = '1'")
	before := s.waiting()
	s.exec("update shop.orders set id = id + 10")
	s.wants("after the update", strings.NewReplacer("1 at", "11 at", "2 at", "12 at").Replace(before))
	s.wantsFired("after the update", "11 primary")
	if n := s.count("select check_count from prescient.future_job where entity_key = '11'"); n != 3 {
		t.Errorf("check_count %d, want 3", n)
	}
	if n := s.count(`select count(*) from prescient.future_job_history
		where outcome = 'cancelled' and entity_key in ('1', '2') and journal::json ->> 'to' = '1' || entity_key`); n != 2 {
		t.Errorf("%d checks were cancelled for a new key", n)
	}
	if n := s.count("select count(*) from prescient.future_job where journal::json ->> 'what' = 'renamed' and '1' || (journal::json ->> 'from') = entity_key"); n != 2 {
		t.Errorf("%d checks tell of the key before", n)
	}
}

func TestWhatAnEndedRowHasFiredFollowsItsKey(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("01 12:00") + " from generate_series(1, 3) as n")
	for _, id := range []string{"1", "2", "3"} {
		s.fires(id, "order.unshipped.primary")
		s.fires(id, "order.unshipped.final")
	}
	s.exec("delete from prescient.future_job")
	s.exec("update shop.orders set id = id + 10")
	s.wants("no step is left", "")
	s.wantsFired("renumbered", "11 final, 11 primary, 12 final, 12 primary, 13 final, 13 primary")
	s.exec("update shop.orders set id = id - 1") // each to the key that the one before has left
	s.wants("renumbered one by one", "")
	s.wantsFired("renumbered one by one", "10 final, 10 primary, 11 final, 11 primary, 12 final, 12 primary")
	if plan, err := s.store.Again().Plan(t.Context(), parse(t, unshipped), nil); err != nil || plan.Rules[0].Begin != 0 || plan.Rules[0].Overdue != 0 {
		t.Errorf("a second look finds %+v, %v", plan, err)
	}
}

func TestTwoRowsSwapTheirKeys(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:30") + "), (2, " + at("04 11:50") + ")")
	s.fires("1", "order.unshipped.primary")
	s.exec("update shop.orders set id = -1 where id = 1; update shop.orders set id = 1 where id = 2; update shop.orders set id = 2 where id = -1")
	s.wants("swapped", "1 at 03-06 12:00, 2 at 03-04 12:30")
	s.wantsFired("swapped", "2 primary")
}

// The trigger of deletes comes after those of updates.
func TestARowThatTakesTheKeyOfOneThatTheSameStatementDeletesWaits(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"merge": `merge into shop.orders o using (values (1, true), (2, false)) as v (id, gone) on v.id = o.id
			when matched and gone then delete when matched then update set id = 1`,
		"with": `with gone as (delete from shop.orders where id = 1 returning id)
			update shop.orders set id = gone.id from gone where orders.id = 2`,
		"many": `merge into shop.orders o using (select id from shop.orders) as v on v.id = o.id
			when matched and o.id = 1 then delete when matched and o.id = 2 then update set id = 1
			when matched then update set id = o.id + 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopAt(t, noon)
			s.apply(strings.Replace(unshipped, "since: placed_at", "since: [placed_at, changed(channel)]", 1))
			s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 12:00") + " + n * interval '1 hour' from generate_series(1, 2) as n")
			if name == "many" {
				s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 12:00") + " from generate_series(3, 800) as n")
			}
			s.exec(statement)
			const one = "select count(*) from prescient.future_job f where entity_key = '1' and next_check_at = "
			if n := s.count(one + at("06 14:00")); n != 1 {
				t.Errorf("waiting %.200q", s.waiting())
			}
			if n := s.count("select count(*) from prescient.rule_changed where entity_key = '1'"); n != 1 {
				t.Error("it was forgotten when the row has changed")
			}
			if name != "many" {
				s.exec("delete from shop.orders")
				s.wants("deleted", "")
			}
		})
	}
}

func TestARowWhoseKeyAndClockChangeWaitsForItsFirstStep(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(with(unshipped, "cancel: at-once"))
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 11:50") + " from generate_series(1, 4) as n")
	s.exec("update shop.orders set id = 11, placed_at = " + at("05 12:00") + " where id = 1")
	s.exec("update shop.orders set id = 12, shipped_at = " + at("04 12:00") + " where id = 2")
	s.exec("update shop.orders set id = 13, placed_at = null where id = 3")
	s.wants("after the updates", "11 at 03-07 12:00, 4 at 03-06 12:00")
	s.exec("update shop.orders set id = 22, shipped_at = null where id = 12")
	s.wants("open again", "11 at 03-07 12:00, 22 at 03-06 12:00 from 03-04 12:00, 4 at 03-06 12:00")
}

// The checks of rows stay after a truncate.
func TestARowTakesAKeyOfWhichACheckIsLeft(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("03 12:00") + ")")
	s.exec("truncate shop.orders")
	s.exec("insert into shop.orders (id, placed_at) values (2, " + at("04 11:50") + ")")
	s.exec("update shop.orders set id = 1")
	s.wants("after the update", "1 at 03-06 12:00")
}

func TestACheckThatIsDueKeepsItsKeyAndTheNewKeyIsCheckedInTheNextSlot(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:00") + "), (2, " + at("02 12:00") + ")")
	s.now = noon.Add(16 * time.Minute)
	s.exec("update shop.orders set shipped_at = placed_at where id = 2")
	s.exec("update shop.orders set shipped_at = null where id = 2")
	s.exec("update shop.orders set id = id + 10")
	s.wants("while due", "1 at 03-04 12:15, 11 at 03-04 12:30, 12 at 03-04 12:30 from 03-04 12:15, 2 at 03-04 12:15")
	if n := s.count("select count(*) from prescient.future_job where request is not null"); n != 0 {
		t.Errorf("%d checks of the keys before have a request", n)
	}
}

// A check that is firing has locked its row, and records for the key that it has read.
func TestARenamedRowWaitsForTheCheckThatFires(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:00") + ")")
	s.now = noon.Add(16 * time.Minute)
	check, err := s.db.BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = check.Rollback() }()
	if _, err := check.Exec("select from prescient.future_job for update"); err != nil {
		t.Fatal(err)
	}
	renamed := make(chan error)
	go func() {
		renamed <- pgsql.InTx(t.Context(), s.db, func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), "select set_config('prescient_caller.clock', $1, true)", s.now.Format(time.RFC3339Nano))
			if err == nil {
				_, err = tx.ExecContext(t.Context(), "update shop.orders set id = 11")
			}
			return err
		})
	}()
	s.eventually("the update to wait", func() bool { return pgtest.Waits(t, s.db) == 1 })
	check.MustExec(fires, "1", "order.unshipped.primary")
	if _, err := check.Exec(`update prescient.future_job set next_check_at = ` + at("06 12:00") + `, check_count = 1`); err != nil {
		t.Fatal(err)
	}
	if err := check.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-renamed; err != nil {
		t.Fatal(err)
	}
	s.wants("renamed", "11 at 03-06 12:00")
	s.wantsFired("renamed", "11 primary")
}

// The walk reads the table in the order of its keys, so it does not come back to a key that it has passed.
func TestARowThatIsRenamedBehindTheWalkOfAnApplyWaits(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 11:50") + " from generate_series(1, 3) as n")
	s.apply(unshipped)
	s.exec(`update prescient.rule set state = 'applying', position = '1'; delete from prescient.future_job where entity_key = '3';
		update prescient.future_job set next_check_at = ` + at("09 12:00") + ` where entity_key = '2'`) // by the rule before
	s.exec("update shop.orders set id = -id where id > 1")
	s.wants("behind the walk", "-2 at 03-06 12:00, -3 at 03-06 12:00, 1 at 03-06 12:00")
}

// The transaction does not see that an apply has begun.
func TestARowThatATransactionOfBeforeRenamesBehindTheWalkOfAnApplyWaits(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("insert into shop.orders (id, placed_at) select n, " + at("04 11:50") + " from generate_series(1, 2) as n")
	s.apply(unshipped)
	s.exec("delete from prescient.future_job where entity_key = '2'")
	tx := s.before()
	s.exec("update prescient.rule set state = 'applying', position = '1'")
	tx.MustExec("update shop.orders set id = -id where id > 1")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.wants("behind the walk", "-2 at 03-06 12:00, 1 at 03-06 12:00")
}

// Its run is late, and the row is not: no policy decides about the steps that have passed meanwhile.
func TestARowThatIsRenamedWhileItsCheckIsDueDoesNotComeLateDuringAnApply(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.apply(unshipped)
	s.exec("insert into shop.orders (id, placed_at) values (1, " + at("02 12:00") + ")")
	s.exec("update prescient.rule set state = 'applying'")
	s.now = noon.Add(16 * time.Minute)
	s.exec("update shop.orders set id = 11")
	s.wants("renamed", "1 at 03-04 12:15, 11 at 03-04 12:30")
}

func TestARowThatGetsAKeyThatCannotWaitIsWrittenAndWaitsNoLonger(t *testing.T) {
	t.Parallel()
	s := newShopAt(t, noon)
	s.exec("create table shop.named (id text primary key, placed_at timestamptz, shipped_at timestamptz)")
	s.apply(strings.NewReplacer("shop.orders", "shop.named", "    where: channel <> 'test'\n", "").Replace(unshipped))
	s.exec("insert into shop.named (id, placed_at) values ('a', " + at("04 11:50") + ")")
	s.exec("update shop.named set id = repeat('x', 501)")
	s.wants("too long", "")
	s.exec("update shop.named set id = 'b'")
	s.wants("short again", "b at 03-06 12:00")
}
