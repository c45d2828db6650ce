package jobs_test

import (
	"testing"

	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/sql/pgtest"
)

func TestTheLatestRowsOfHistoryAreReadWithoutTheRest(t *testing.T) {
	pgtest.NotOnCitus(t, "what is read is a worker's")
	t.Parallel()
	w := setup(t)
	client, err := jobs.NewClient(t.Context(), w.db, jobs.Config{}) // history has the clock of the database
	if err != nil {
		t.Fatal(err)
	}
	const rows = 100_000
	w.db.MustExec(`insert into prescient.future_job_history (id, job_exec, entity_name, entity_key, first_check_at, slot, check_count,
			error_count, spent, enqueued_at, enqueued_by, outcome, finished_at)
		select n, 'job', 'order', n, now(), now(), 1, 0, '0', now(), 'me', case when n = 7 then 'failed' else 'done' end,
			now() - ($1 - n) * interval '1 minute'
		from generate_series(1, $1::integer) as n`, rows)
	w.db.MustExec("vacuum analyze prescient.future_job_history")
	const read = `select sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::bigint
		from pg_class where relname like 'future_job_history%' and relkind = 'r'`
	tx := w.db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	// The planner may take a sequential scan for a table of 40,000 rows, which it reads as fast.
	tx.MustExec("set local enable_seqscan = off")
	var before int64 // of the session, such as by analyze, if the server has not told its statistics yet
	if err := tx.GetContext(t.Context(), &before, read); err != nil {
		t.Fatal(err)
	}
	page, next, err := admin.New(client).HistoryPage(t.Context(), tx, admin.HistoryFilter{Limit: 5})
	if err != nil || len(page) != 5 || page[0].ID != rows || page[4].ID != rows-4 || next.IsZero() {
		t.Fatalf("%+v, %v, %v", page, next, err)
	}
	var n int64
	if err := tx.GetContext(t.Context(), &n, read); err != nil || n-before > rows/4 {
		t.Errorf("it read %d rows: %v", n-before, err)
	}
	// A page that needs the oldest row finds it.
	page, next, err = admin.New(client).HistoryPage(t.Context(), tx, admin.HistoryFilter{Outcome: "failed"})
	if err != nil || len(page) != 1 || page[0].ID != 7 || !next.IsZero() {
		t.Errorf("%+v, %v, %v", page, next, err)
	}
}
