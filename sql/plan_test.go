package sql_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A run must cost what is due, however many rows wait: every statement reads future_job through the slot index, in a
// slot that the statistics know and in one that they have not seen.
func TestStatementsOfARunReadTheSlotIndexAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.future_job (job_exec, entity_name, entity_key, first_check_at, next_check_at)
		select 'remind', 'order', n::text, slot, slot
		from generate_series(1, 20000) as n, lateral (select timestamptz '`+noon+`' + n % 200 * interval '15 minutes') as s (slot)`)
	exec(t, db, "analyze prescient.future_job")
	const unseen = "2030-06-01 12:00:00Z"
	exec(t, db, `insert into prescient.future_job (job_exec, entity_name, entity_key, first_check_at, next_check_at)
		select 'remind', 'order', 'u' || n, $1, $1 from generate_series(1, 10000) as n`, unseen)

	for _, slot := range []string{"2030-03-02 12:00:00Z", unseen} {
		ids := pq.Int64Array{}
		if err := db.GetContext(t.Context(), &ids, "select array_agg(id) from (select id from prescient.future_job where next_check_at = $1 and shard = 3 order by id limit 500) as x", slot); err != nil {
			t.Fatal(err)
		}
		if len(ids) == 0 {
			ids = pq.Int64Array{1}
		}
		texts := make(pq.StringArray, len(ids))
		times := make(pq.StringArray, len(ids))
		for i := range ids {
			texts[i], times[i] = "done", "2030-07-01 12:00:00Z"
		}
		first, last, shards := ids[0], ids[len(ids)-1], pq.Int64Array{3, 4}
		for name, test := range map[string]struct {
			stmt  pgsql.Statement
			args  []any
			bound string // what the index must be asked for
		}{
			"page_read":         {pgsql.PageRead, []any{slot, shards, pq.Int64Array{0, 0}, 1000, pq.StringArray{}, nil}, `next_check_at = .*shard = .*id > `},
			"rows_finish":       {pgsql.RowsFinish, []any{slot, 3, first, last, ids, texts, texts, ids, ids, "me"}, `next_check_at = .*shard = .*id `},
			"rows_move":         {pgsql.RowsMove, []any{slot, 3, first, last, ids, texts, times, texts, ids, nil}, `next_check_at = .*shard = .*id `},
			"rows_finish_alike": {pgsql.RowsFinishAlike, []any{slot, shards, pq.Int64Array{first, first}, pq.Int64Array{last, last}, ids, "done", 0, nil, "me", first, last}, `next_check_at = .*shard = .*id `},
			"rows_move_alike":   {pgsql.RowsMoveAlike, []any{slot, shards, first, last, ids, times[0], "next", 0}, `next_check_at = .*shard = .*id `},
			"rows_lock":         {pgsql.RowsLock, []any{slot, 3, ids}, `next_check_at = .*shard = `},
			"page_read_group":   {pgsql.PageReadGroup, []any{slot, 3, texts, "1"}, `next_check_at = .*shard = `},
			"page_read_groups":  {pgsql.PageReadGroups, []any{slot, 3, texts, "1", 1000}, `next_check_at = .*shard = `},
			"slot_open":         {pgsql.SlotOpen, []any{slot, "run"}, `next_check_at = .*shard = `},
			"slot_reopen":       {pgsql.SlotReopen, []any{slot}, `next_check_at = `},
			"shard_close":       {pgsql.ShardClose, []any{slot, pq.Int64Array{3}, pq.Int64Array{1}, pq.Int64Array{0}}, `next_check_at = .*shard = `},
			"slot_waiting":      {pgsql.SlotWaiting, []any{slot}, `next_check_at = `},
			"past_slots":        {pgsql.PastSlots, []any{noon, "2030-07-01 12:00:00Z"}, `next_check_at >`},
			"ledger_trouble":    {pgsql.LedgerTrouble, []any{noon, "2030-07-01 12:00:00Z"}, `next_check_at = `},
			"ledger_fill":       {pgsql.LedgerFill, []any{noon, "2030-07-01 12:00:00Z"}, `next_check_at = `},
		} {
			plan := explain(t, db, test.stmt, test.args...)
			// A semi join may become a hash of the whole table once there are more rows.
			joined := regexp.MustCompile(`(Semi|Anti) Join\b`).MatchString(plan) && name != "ledger_fill" // which joins the ledger so
			if joined || strings.Contains(plan, "Seq Scan on future_job") {
				t.Errorf("%s reads the whole table for slot %s:\n%s", name, slot, plan)
			}
			if !regexp.MustCompile(`Index Cond: .*` + test.bound).MatchString(plan) {
				t.Errorf("%s does not ask the index for %q, slot %s:\n%s", name, test.bound, slot, plan)
			}
		}
	}
}

func TestAPageIsReadThroughTheSlotIndexThoughAllRowsAreInOneSlot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.future_job (job_exec, entity_name, entity_key, first_check_at, next_check_at)
		select 'remind', 'order', n::text, slot, slot
		from generate_series(1, 200000) as n, (values (timestamptz '`+noon+`')) as s (slot)`)
	exec(t, db, "analyze prescient.future_job")
	var plan []string
	err := pgsql.InTx(t.Context(), db, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(t.Context(), pgsql.SlotIndexOnly); err != nil {
			return err
		}
		return tx.SelectContext(t.Context(), &plan, "explain "+pgsql.PageRead.In(""), noon, pq.Int64Array{3, 4}, pq.Int64Array{0, 0}, 1000, pq.StringArray{}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(plan, "\n"); strings.Contains(text, "Seq Scan on future_job") || strings.Contains(text, "Sort") {
		t.Error(text)
	}
}

func TestStatementsOfAnEntityReadTheNaturalKey(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.future_job (job_exec, entity_name, entity_key, first_check_at, next_check_at)
		select 'remind', 'order', n::text, '`+noon+`', '`+noon+`' from generate_series(1, 20000) as n`)
	exec(t, db, "analyze prescient.future_job")
	plan := explain(t, db, pgsql.JobShow, "order", "77")
	if !strings.Contains(plan, "future_job_key") || strings.Contains(plan, "Seq Scan") {
		t.Error(plan)
	}
	// What the functions do shows in the counters of the table.
	for _, query := range []string{
		"select prescient.enqueue('remind', 'order', '77', '2030-03-05', on_conflict => 'keep')",
		"select prescient.push_back('remind', 'order', '77', '2030-03-06')",
		"select prescient.reschedule('remind', 'order', '77', '2030-03-07')",
		"select prescient.enqueue('remind', 'order', '77', '2030-03-05', on_conflict => 'replace')",
		"select prescient.cancel('remind', 'order', '77')",
		"select prescient.cancel_entity('order', '78')",
	} {
		// More than five times, so that the plan is the one for any parameters.
		for range 7 {
			scans := func(tx *sqlx.Tx) (n int) {
				if err := tx.GetContext(t.Context(), &n, "select pg_stat_get_xact_numscans('prescient.future_job'::regclass)"); err != nil {
					t.Fatal(err)
				}
				return n
			}
			tx, err := db.BeginTxx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			before := scans(tx)
			if _, err := tx.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
			if n := scans(tx) - before; n != 0 {
				t.Errorf("%d scans of the whole table: %s", n, query)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func explain(t *testing.T, db *sqlx.DB, stmt pgsql.Statement, args ...any) string {
	t.Helper()
	var lines []string
	err := pgsql.InTx(context.WithoutCancel(t.Context()), db, func(tx *sqlx.Tx) error {
		return tx.SelectContext(t.Context(), &lines, "explain "+stmt.In(""), args...)
	})
	if err != nil {
		t.Fatal(fmt.Errorf("explain %.60s: %w", stmt, err))
	}
	return strings.Join(lines, "\n")
}
