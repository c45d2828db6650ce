package jobs_test

import (
	"sync"
	"testing"

	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A page of which another operator acknowledges a row meanwhile is not the last one.
func TestAllRowsAreAcknowledgedBesideAnotherOperator(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const page = 10_000
	w.exec(`insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'remind', 'order', n::text, $1, $1, 0, 1, '0', $1, 'me', 'failed', $1::timestamptz + n * interval '1 ms'
		from generate_series(1, $2::int) as n`, slot(1), page+1)
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec(`update prescient.future_job_history set ack = '{}' where id = 1`)
	var wg sync.WaitGroup
	wg.Go(func() {
		if n, err := admin.New(w.client).AckAll(t.Context(), w.db, admin.AckFilter{All: true}, admin.AckOptions{Because: "a move"}); err != nil || n != page {
			t.Errorf("%d rows were acknowledged, %v", n, err)
		}
	})
	pgtest.AwaitWaits(t, w.db, 1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	left, err := admin.New(w.client).PreviewAck(t.Context(), w.db, admin.AckFilter{All: true})
	if err != nil || left.Rows != 0 {
		t.Errorf("%d rows are left, %v", left.Rows, err)
	}
}
