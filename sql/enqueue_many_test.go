package sql_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/prescient-go/prescient/sql/pgtest"
)

// Key 1 is due, and no other key waits. The call that keeps writes key 2, and then waits for key 3. The other call locks
// key 1, and waits for key 2. Then the first call needs key 1.
func TestTwoCallsOfEnqueueManyWithTheSameKeysNeverDeadlock(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"replace", "push_back", "keep"} {
		db := pgtest.New(t)
		exec(t, db, "select prescient.enqueue('remind', 'order', '1', '2030-03-01')")
		enqueue := func(policy string) error {
			_, err := db.ExecContext(t.Context(), `
				select prescient.enqueue_many(
					'{remind,remind,remind}', '{order,order,order}', '{3,2,1}', '{2030-03-05,2030-03-05,2030-03-05}', '{null,null,null}',
					'{"","",""}', '{null,null,null}', $1, clock => '2030-03-02'
				)`, policy)
			return err
		}
		first := begin(t, db)
		exec(t, first, "select prescient.enqueue('remind', 'order', '3', '2030-03-05', clock => '2030-03-02')")
		ended := make(chan error, 2)
		go func() { ended <- enqueue("keep") }()
		awaitWaits(t, db, 1)
		go func() { ended <- enqueue(policy) }()
		awaitWaits(t, db, 2)
		if err := first.Rollback(); err != nil {
			t.Fatal(err)
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", policy, err)
			}
		}
		if got := get[int](t, db, "select count(*) from prescient.future_job where entity_key <> '1' or (request).check_at is not null"); got != 3 {
			t.Errorf("%s: %d of 3 keys wait as requested", policy, got)
		}
	}
}

// awaitWaits returns once n sessions of the database wait for locks.
func awaitWaits(t *testing.T, db *sqlx.DB, n int) {
	t.Helper()
	for pgtest.Waits(t, db) < n {
		continue
	}
}
