package sql_test

import (
	"testing"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// Key 1 is due, and no other key waits. The call that keeps writes key 2, and then waits for key 3. The other call locks
// key 1, and waits for key 2. Then the first call needs key 1.
func TestTwoCallsOfEnqueueManyWithTheSameKeysNeverDeadlock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy    string
		requested bool // an enqueue has recorded a request on key 1 before
	}{
		{"replace", false},
		{"push_back", false},
		{"keep", false},
		{"replace", true},
		{"push_back", true},
		{"keep", true},
	} {
		policy := test.policy
		db := pgtest.New(t)
		exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-01')")
		if test.requested {
			exec(t, db, "select prescient.enqueue('remind', 'order', '1', check_at => case when set_config('prescient_caller.clock', ('2030-03-02')::timestamptz::text, true) is not null then ('2030-03-04')::timestamptz end)")
		}
		enqueue := func(policy string) error {
			_, err := db.ExecContext(t.Context(), `
				select prescient.enqueue_many(
					'{remind,remind,remind}', '{order,order,order}', '{3,2,1}', item_keys => '{"","",""}', check_ats => case when set_config('prescient_caller.clock', ('2030-03-02')::timestamptz::text, true) is not null then ('{2030-03-05,2030-03-05,2030-03-05}')::timestamptz[] end, on_conflict => $1)`, policy)
			return err
		}
		first := begin(t, db)
		exec(t, first, "select prescient.enqueue('remind', 'order', '3', check_at => case when set_config('prescient_caller.clock', ('2030-03-02')::timestamptz::text, true) is not null then ('2030-03-05')::timestamptz end)")
		ended := make(chan error, 2)
		go func() { ended <- enqueue("keep") }()
		pgtest.AwaitWaits(t, db, 1)
		go func() { ended <- enqueue(policy) }()
		pgtest.AwaitWaits(t, db, 2)
		if err := first.Rollback(); err != nil {
			t.Fatal(err)
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Errorf("%+v: %v", test, err)
			}
		}
		if got := get[int](t, db, "select count(*) from prescient.future_job where entity_key <> '1' or (request).check_at is not null"); got != 3 {
			t.Errorf("%+v: %d of 3 keys wait as requested", test, got)
		}
	}
}

// Job "b" is used first, so its number is the lower one. Both calls need the rows of "a" and "b" of the same order.
func TestACancelOfAnEntityAndEnqueueManyNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, job := range []string{"b", "a"} {
		exec(t, db, "select prescient.enqueue($1, 'order', '1', check_at => '2030-03-05')", job)
	}
	held := begin(t, db)
	exec(t, held, "select prescient.push_back('b', 'order', '1', check_at => '2030-03-06')")
	ended := make(chan error, 2)
	for i, call := range []string{
		"select prescient.cancel_entity('order', '1')",
		`select prescient.enqueue_many(
			'{a,b}', '{order,order}', '{1,1}', item_keys => '{"",""}', check_ats => '{2030-03-07,2030-03-07}', on_conflict => 'replace')`,
	} {
		go func() {
			_, err := db.ExecContext(t.Context(), call)
			ended <- err
		}()
		pgtest.AwaitWaits(t, db, i+1)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A slice of an array, and what jsonb or a client builds, may begin with another subscript than 1.
func TestEnqueueManyTakesArraysThatBeginWithAnySubscript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ jobs, items string }{
		{"[0:2]={a,a,a}", `{"","",null}`},
		{"{a,a,a}", `[7:9]={"","",null}`},
		{"[-1:1]={a,a,a}", `[0:2]={"","",null}`},
	} {
		db := pgtest.New(t)
		exec(t, db, "select prescient.enqueue('a', 'order', '1', check_at => now() + interval '1 day')")
		got := get[string](t, db, `
			select inserted || ' inserted, ' || kept || ' kept'
			from prescient.enqueue_many($1, '{order,order,order}', '{1,2,3}', $2, array_fill(now() + interval '1 day', '{3}'))`, test.jobs, test.items)
		if got != "2 inserted, 1 kept" {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
