package sql_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/pg"
	pgsql "github.com/prescient-go/prescient/sql"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// A run must cost what is due, however many rows wait, and so must a look at the ledger. So every
// statement of the engine reads future_job through the slot index alone, and only the entries that
// it needs.
func TestStatementsOfTheEngineReadTheSlotIndexAlone(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	for name, test := range map[string]struct {
		known string // inserted before the statistics are made
		later string // inserted after
		slot  string
	}{
		"a slot that the statistics know":          {fill(20_000, inSlots), "", "2030-03-02 12:00:00Z"},
		"a slot that the statistics have not seen": {fill(20_000, inSlots), fill(10_000, "timestamptz '2030-03-09 12:00:00Z'"), "2030-03-09 12:00:00Z"},
		"a slot that has most of the rows":         {fill(100_000, "timestamptz '2030-03-09 12:00:00Z'"), "", "2030-03-09 12:00:00Z"},
		"a slot beside one that has most of them":  {fill(100_000, "timestamptz '2030-03-09 12:00:00Z'") + fill(1000, inSlots), "", "2030-03-02 12:00:00Z"},
	} {
		if testing.Short() && test.later == "" {
			continue // what the statistics do not know is the hardest case
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.SetMaxOpenConns(1) // the plans that functions keep belong to a connection
			exec(t, db, "select prescient.ensure_job(name) from unnest('{remind,alert}'::text[]) as name")
			exec(t, db, test.known)
			exec(t, db, "analyze")
			exec(t, db, test.later)
			exec(t, db, "update prescient.setting set since = '"+noon+"'")
			for name, s := range dueIn(t, db, test.slot).statements() {
				// More than five times, so that functions use their generic plans, too.
				for range 7 {
					if r := s.reads(t, db, pg.SlotIndexOnly.In(pgsql.DefaultSchema)); !r.within(s.most) {
						t.Errorf("%s reads %v, and %v is enough", name, r, s.most)
						break
					}
				}
			}
		})
	}
}

func TestNoStatementThatReadsFutureJobIsForgottenHere(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, fill(100, inSlots))
	known := dueIn(t, db, noon).statements()
	ofApplications := regexp.MustCompile(`^(action_(end|insert|renew)|advise_sample|cancel|doctor|enqueue|event|entity_(kinds|names)|forecast_(blocks|journals)|functions_(applied|here)|history|job|limit|next_slot|periodic|push_back|read_settings|reschedule|rule|schedule|schema_contents|set_width)`)
	reads := regexp.MustCompile(`prescient\.(future_job\b[^_]|[a-z_]+\()`)
	files, err := os.ReadDir("statements")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".sql")
		text, err := os.ReadFile("statements/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, ofNoTable := range []string{"slot_took", "gets_event"} {
			text = bytes.ReplaceAll(text, []byte("prescient."+ofNoTable+"("), nil)
		}
		if _, ok := known[name]; !ok && !ofApplications.MatchString(name) && reads.Match(text) {
			t.Errorf("%s is not tested", name)
		}
	}
}

// Compilation (JIT) costs a new session 20 ms, and every command of a crontab is a new session.
func TestNoStatementOfTheEngineIsCompiled(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans are a worker's")
	t.Parallel()
	var compiled atomic.Pointer[string]
	base, err := pq.NewConnector(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := sqlx.NewDb(sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) {
		if strings.Contains(notice.Message, "\nJIT:") {
			compiled.Store(&notice.Message)
		}
	})), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	exec(t, db, "select prescient.ensure_job(name) from unnest('{remind,alert}'::text[]) as name")
	exec(t, db, fill(2000, inSlots)) // the statistics do not know these rows, as after a migration
	if !get[bool](t, db, "select pg_jit_available()") {
		t.Skip("this server compiles nothing")
	}
	exec(t, db, `
		load 'auto_explain';
		set auto_explain.log_min_duration = 0;
		set auto_explain.log_nested_statements = on;
		set auto_explain.log_analyze = on;
		set client_min_messages = log;
		set jit_above_cost = 0`)
	exec(t, db, "select 1")
	if compiled.Swap(nil) == nil {
		t.Fatal("nothing is told of what is compiled")
	}
	exec(t, db, "reset jit_above_cost")
	for name, s := range dueIn(t, db, noon).statements() {
		if s.reads(t, db, "select"); compiled.Load() != nil {
			t.Errorf("%s: %s", name, *compiled.Swap(nil))
		}
	}
}

func TestStatementsOfAnEntityReadTheNaturalKey(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	db.SetMaxOpenConns(1)
	exec(t, db, "select prescient.ensure_job('remind')")
	exec(t, db, fill(20_000, "timestamptz '"+noon+"'"))
	exec(t, db, "analyze")
	for _, query := range []string{
		strings.ReplaceAll(pg.JobShow.In(pgsql.DefaultSchema), "$3", "1000"),
		strings.ReplaceAll(pg.JobRelated.In(pgsql.DefaultSchema), "$3", "'no group'"),
		"select prescient.enqueue('remind', $1, $2, check_at => '2030-03-05', on_conflict => 'keep')",
		"select prescient.enqueue('remind', $1, $2, check_at => case when set_config('prescient_caller.clock', ('2030-03-05')::timestamptz::text, true) is not null then ('2030-03-05')::timestamptz end, on_conflict => 'keep')", // its slot has begun
		"select prescient.enqueue('remind', $1, $2, check_at => '2030-03-05', on_conflict => 'replace')",
		"select prescient.enqueue('remind', $1, $2, check_at => '2030-03-05', on_conflict => 'push_back')",
		"select prescient.enqueue_many('{remind}', array[$1], array[$2], item_keys => '{\"\"}', check_ats => '{2030-03-05}')",
		"select prescient.enqueue_many('{remind}', array[$1], array[$2], item_keys => '{\"\"}', check_ats => case when set_config('prescient_caller.clock', ('2030-03-05')::timestamptz::text, true) is not null then ('{2030-03-05}')::timestamptz[] end)",
		"select prescient.push_back('remind', $1, $2, check_at => '2030-03-06')",
		"select prescient.reschedule('remind', $1, $2, check_at => '2030-03-07')",
		"select prescient.cancel('remind', $1, $2)",
		"select prescient.cancel_entity($1, $2)",
	} {
		s := statement{query: query, args: []any{"order", "78"}, most: map[string]int64{"future_job_key": 8, "future_job_pkey": 8, "future_job_group": 8}}
		for range 7 {
			if r := s.reads(t, db, "select"); !r.within(s.most) {
				t.Errorf("it reads %v: %s", r, query)
				break
			}
		}
	}
}

// A tenant may have very many checks, each with an item of its own.
func TestACallForAnItemReadsNoOtherItemsOfItsEntity(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `select prescient.enqueue_many(array_agg('remind'::text), array_agg('tenant'::text), array_agg('1'::text),
		item_keys => array_agg(n::text), check_ats => array_agg(timestamptz '2030-03-05')) from generate_series(1, 20000) as n`)
	exec(t, db, "analyze")
	for _, query := range []string{
		"select prescient.cancel('remind', 'tenant', '1', $1)",
		"select prescient.enqueue('remind', 'tenant', '1', item_key => $1, check_at => '2030-03-05', on_conflict => 'replace')",
		"select prescient.reschedule('remind', 'tenant', '1', $1, check_at => '2030-03-07')",
		"select prescient.push_back('remind', 'tenant', '1', $1, check_at => '2030-03-07')",
	} {
		s := statement{query: query, args: []any{"333"}, most: map[string]int64{"future_job_key": 8, "future_job_pkey": 8, "future_job_group": 8}}
		for range 7 { // a plan is kept from the sixth call on
			if r := s.reads(t, db, "select"); !r.within(s.most) {
				t.Errorf("it reads %v: %s", r, query)
				break
			}
		}
	}
}

// An apply of a changed delay moves the rows of a page, of a job whose rows the statistics may not know. It must read
// those rows alone, and compare none of them with each other.
func TestAPageOfAnApplyReadsTheRowsThatItMoves(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	var removed atomic.Int64
	base, err := pq.NewConnector(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	joinFilter := regexp.MustCompile(`Rows Removed by Join Filter: (\d+)`)
	var told atomic.Bool // of the update
	db := sqlx.NewDb(sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) {
		told.Store(told.Load() || strings.Contains(notice.Message, "update prescient.future_job"))
		for _, found := range joinFilter.FindAllStringSubmatch(notice.Message, -1) {
			n, _ := strconv.ParseInt(found[1], 10, 64)
			removed.Add(n)
		}
	})), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // the plans that functions keep belong to a connection
	exec(t, db, "select prescient.ensure_job(name) from unnest('{remind,alert}'::text[]) as name")
	exec(t, db, "analyze")
	exec(t, db, fill(20_000, inSlots))
	exec(t, db, `
		load 'auto_explain';
		set auto_explain.log_min_duration = 0;
		set auto_explain.log_nested_statements = on;
		set auto_explain.log_analyze = on;
		set auto_explain.log_timing = off;
		set client_min_messages = log`)
	const rows = 300
	of := fmt.Sprintf(`(select * from prescient.future_job where job = prescient.find_job('remind') order by entity_key limit %d) as f`, rows)
	s := statement{
		query: `select prescient.retime('remind', slots, ids, requested, ats, payloads) from page`,
		before: []string{`create temporary table page on commit drop as
			select array_agg(next_check_at) as slots, array_agg(id) as ids, array_agg(first_check_at::timestamptz) as requested,
				array_agg(next_check_at + interval '1 day') as ats, array_agg(null::text) as payloads
			from ` + of},
		most: map[string]int64{"future_job_pkey": 2*rows + few, "future_job_key": few},
	}
	for range 7 { // more than five times, so that the function uses its generic plans, too
		if r := s.reads(t, db, "select"); !r.within(s.most) {
			t.Errorf("it reads %v, and %v is enough", r, s.most)
			break
		}
	}
	if n := removed.Load(); n > 0 || !told.Load() {
		t.Errorf("joins have compared %d pairs of rows in vain, told of the update: %t", n, told.Load())
	}
}

// A walk that cancels in batches must read each entry once, not the entries of earlier batches again.
func TestACancellationReadsWhatIsBehindItsPosition(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, "select prescient.ensure_job(name) from unnest('{remind,alert}'::text[]) as name")
	exec(t, db, fill(20_000, inSlots))
	exec(t, db, "analyze")
	var slot time.Time
	var job, id int64
	late := "select next_check_at, job, id from prescient.future_job order by 1, 2, 3 offset 19000 limit 1"
	if err := pg.One(t.Context(), db, late, nil, &slot, &job, &id); err != nil {
		t.Fatal(err)
	}
	args := []any{"remind", nil, "no such key%", nil, nil, nil, 1000, slot, job, id}
	s := statement{query: pg.CancelMany.In(pgsql.DefaultSchema), args: args, most: slotIndex(1000)}
	if r := s.reads(t, db, "set local enable_sort = off"); !r.within(s.most) {
		t.Errorf("it reads %v, and %v is enough", r, s.most)
	}
}

// Status, findings, pages and metrics look at the outbox often, and nothing is removed from it by default.
func TestALookAtTheOutboxReadsABoundedPartOfIt(t *testing.T) {
	pgtest.NotOnCitus(t, "the plans, and what they read, are a worker's")
	t.Parallel()
	db := pgtest.New(t)
	exec(t, db, `insert into prescient.event_outbox (id, source, type) select n, 's', 'prescient.notify.t' || n % 3 from generate_series(1, 30000) as n`)
	exec(t, db, "analyze")
	for _, test := range []struct {
		name string
		set  string
		stmt pg.Statement
		most int64
	}{
		{"receiver_unknown, if none is", "select", pg.ReceiverUnknown, 0},
		{
			"receiver_unknown",
			`insert into prescient.schedule (id, crontab, anchor, notify)
				select n, '@daily', '2030-03-01', case when n > 3 then 'none' else 't1' end from generate_series(1, 9) as n`,
			pg.ReceiverUnknown, 10_000,
		},
		{
			"board_consumers", `insert into prescient.event_consumer (name, mark, position, address, types)
				values ('desk', '0', 0, 'file:///desk', '{none}')`,
			pg.BoardConsumers, 10_001,
		},
		{"metrics_outbox", "select", pg.MetricsOutbox, 10_001},
		{"metrics_outbox, without a consumer", "delete from prescient.event_consumer", pg.MetricsOutbox, 10_001},
	} {
		exec(t, db, test.set)
		s := statement{query: test.stmt.In(pgsql.DefaultSchema), most: map[string]int64{"event_outbox_pkey": test.most}}
		for _, settings := range []string{"select", pg.SlotIndexOnly.In(pgsql.DefaultSchema)} {
			if r := s.readsOf(t, db, settings, "event_outbox"); !r.within(s.most) {
				t.Errorf("%s reads %v, and %v is enough", test.name, r, s.most)
			}
		}
	}
}

// inSlots is the slot of the n-th row, for 200 slots.
const inSlots = "timestamptz '" + noon + "' + n % 200 * interval '15 minutes'"

// fill inserts n rows of two jobs into slots; one of ten has a group.
func fill(n int, slot string) string {
	return fmt.Sprintf(`insert into prescient.future_job (job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at)
		select job, 'order', n::text, slot::text, case when n %% 10 = 0 then 'g' || n %% 400 end, slot, slot
		from generate_series(1, %d) as n, lateral (select %s) as s (slot), prescient.job
		where name = case when n / 200 %% 2 = 0 then 'remind' else 'alert' end;`, n, slot)
}

// due describes rows of a slot that a runner has claimed.
type due struct {
	slot     string
	job      int64
	ids      pq.Int64Array
	versions pq.StringArray // of these rows, as store_give knows them
	group    sql.NullString
	all      int64 // rows in the slot
}

func dueIn(t *testing.T, db *sqlx.DB, slot string) due {
	t.Helper()
	d := due{slot: slot, job: get[int64](t, db, "select prescient.ensure_job('remind')")}
	d.ids = get[pq.Int64Array](t, db, `select coalesce(array_agg(id), '{1}')
		from (select id from prescient.future_job where next_check_at = $1 and job = $2 order by id limit 500) as x`, slot, d.job)
	d.versions = get[pq.StringArray](t, db, `select array_agg(coalesce(f.xmin::text, '') order by u.nth)
		from unnest($3::bigint[]) with ordinality as u (id, nth) left join prescient.future_job f on f.next_check_at = $1 and f.job = $2 and f.id = u.id`, slot, d.job, d.ids)
	d.group = get[sql.NullString](t, db, "select min(group_key) from prescient.future_job where next_check_at = $1", slot)
	d.all = get[int64](t, db, "select count(*) from prescient.future_job where next_check_at = $1", slot)
	return d
}

// statement is a statement of the store, and how many entries it may read of each index.
type statement struct {
	before []string // SQL that runs first
	query  string
	args   []any
	most   map[string]int64
}

// few bounds a statement that only probes.
const few = 20

// statements returns all statements that read future_job in a run, for status or for catch-up. A
// page has at most 500 rows. The estimate of a slot reads the first 1,000 rows of a job, and 32
// rows at each of 32 places.
func (d due) statements() map[string]statement {
	n := len(d.ids)
	first, last := d.ids[0], d.ids[n-1]
	texts, times, next, none := repeat(n, "done"), repeat(n, afterAll), repeat(n, "next"), repeat(n, "null")
	jobs, names := pq.Int64Array{d.job}, pq.StringArray{"remind"}
	opened := fmt.Sprintf("select prescient.open_slot('%s', 'run', 1, 'me', '1 minute', '%[1]s')", d.slot)
	claimed := fmt.Sprintf("select prescient.claim_rows('%s', 'run', 2, 'me', '1 minute', '{%d}', %d)", d.slot, d.job, n)
	drained := "update prescient.slot_job set drained = true"
	page, look, whole := int64(n+few), 2*int64(min(d.all, 2026)+few), int64(200*few)
	empty, theSlot := repeat(n, ""), repeat(n, d.slot)
	received := fmt.Sprintf(`select prescient.receive_rows('s', 1, array_agg(text 'remind'), array_agg(row_to_json(f)::text), array_agg(text ''), array_agg(text ''), '{}')
		from prescient.future_job f where next_check_at = '%s' and job = %d and id between %d and %d`, d.slot, d.job, first, last)
	return map[string]statement{
		"slot_open":         {nil, pg.SlotOpen.In(pgsql.DefaultSchema), []any{d.slot, "run", 1, "me", 1_000_000, d.slot, 64, false}, slotIndex(look)},
		"claim_rows":        {[]string{opened}, pg.ClaimRows.In(pgsql.DefaultSchema), []any{d.slot, "run", 2, "me", 1_000_000, jobs, n}, slotIndex(page)},
		"claim_take_over":   {[]string{opened, claimed}, pg.ClaimTakeOver.In(pgsql.DefaultSchema), []any{d.slot, "run", 3, "me", 1_000_000, jobs}, nil},
		"claim_fence":       {[]string{opened, claimed}, pg.ClaimFence.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, true, nil}, nil},
		"page_read":         {nil, pg.PageRead.In(pgsql.DefaultSchema), []any{d.slot, jobs, first, last}, slotIndex(page)},
		"page_unreadable":   {nil, pg.PageUnreadable.In(pgsql.DefaultSchema), []any{d.slot, jobs, first, last}, slotIndex(2 * page)},
		"row_attempts":      {nil, pg.RowAttempts.In(pgsql.DefaultSchema), []any{d.slot, d.job, first, true}, slotIndex(few)},
		"claim_orphans":     {[]string{opened, claimed}, pg.ClaimOrphans.In(pgsql.DefaultSchema), []any{d.slot}, nil},
		"rows_left":         {nil, pg.RowsLeft.In(pgsql.DefaultSchema), []any{d.slot, jobs, first, last, d.ids}, slotIndex(page)},
		"rows_lock":         {nil, pg.RowsLock.In(pgsql.DefaultSchema), []any{d.slot, jobs, first, last, d.ids}, slotIndex(2 * page)},
		"rows_finish":       {nil, pg.RowsFinish.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, jobs, first, last, d.ids, texts, texts, d.ids, d.ids, "me", names, nil, nil}, slotIndex(page)},
		"rows_finish_alike": {nil, pg.RowsFinishAlike.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, jobs, first, last, d.ids, "done", 0, nil, "me", names, nil}, slotIndex(page)},
		"rows_finish_apart": {nil, pg.RowsFinishApart.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, jobs, first, last, d.ids, texts, texts, d.ids, d.ids, "me", names, nil, nil}, slotIndex(page)},
		"rows_move":         {nil, pg.RowsMove.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, jobs, first, last, d.ids, next, times, texts, d.ids, none, nil, texts, d.ids}, slotIndex(page)},
		"rows_move_alike":   {nil, pg.RowsMoveAlike.In(pgsql.DefaultSchema), []any{d.slot, 2, 1, jobs, first, last, d.ids, afterAll, "next", 0, nil, "{}", 0}, slotIndex(page)},
		"check_begin":       {nil, pg.CheckBegin.In(pgsql.DefaultSchema), []any{pg.Composite{d.slot, d.job, first, true, "me", "100", "1000", "check of remind"}}, slotIndex(few)},
		"row_holder":        {nil, pg.RowHolder.In(pgsql.DefaultSchema), []any{d.slot, jobs, first, last, d.ids, 0}, slotIndex(page)},
		"row_wait":          {nil, pg.RowWait.In(pgsql.DefaultSchema), []any{d.slot, d.job, first}, slotIndex(few)},
		"check_same":        {nil, "select prescient.same_check(pg_current_xact_id()::xid::text)", nil, nil},
		"row_record":        {[]string{opened, claimed}, pg.RowRecord.In(pgsql.DefaultSchema), d.check("done", nil), slotIndex(few)},
		"row_record, move":  {[]string{opened, claimed}, pg.RowRecord.In(pgsql.DefaultSchema), d.check(nil, "next"), slotIndex(few)},
		"group_read": {nil, pg.GroupRead.In(pgsql.DefaultSchema), []any{d.slot, jobs, d.group, "order", "1", first, 30_000, pq.Int64Array{}}, map[string]int64{
			"future_job_group": d.all/few + few, "future_job_key": few, "future_job_pkey": d.all/few + few,
		}},
		"group_unreadable": {nil, pg.GroupUnreadable.In(pgsql.DefaultSchema), []any{d.slot, jobs, d.group, "order", "1", first}, map[string]int64{
			"future_job_group": d.all/few + few, "future_job_key": few, "future_job_pkey": 2 * (d.all/few + few),
		}},
		"slot_close":       {[]string{opened, drained}, pg.SlotClose.In(pgsql.DefaultSchema), []any{d.slot, true, nil}, slotIndex(look)},
		"slot_waiting":     {nil, pg.SlotWaiting.In(pgsql.DefaultSchema), []any{d.slot}, slotIndex(d.all + few)},
		"slot_jobs":        {[]string{opened}, pg.SlotJobs.In(pgsql.DefaultSchema), []any{d.slot, jobs, pq.Array([]string{"remind"}), 1000}, nil},
		"board_ahead":      {nil, pg.BoardAhead.In(pgsql.DefaultSchema), []any{"remind", d.slot}, slotIndex(100_000 + whole)},
		"board_job":        {nil, pg.BoardJob.In(pgsql.DefaultSchema), []any{"remind", noon, afterAll, 86400}, nil},
		"board_job_errors": {nil, pg.BoardJobErrors.In(pgsql.DefaultSchema), []any{"remind", noon, afterAll, 20}, nil},
		"board_job_last":   {nil, pg.BoardJobLast.In(pgsql.DefaultSchema), []any{"remind", noon, afterAll}, nil},
		"board_retry":      {nil, pg.BoardRetry.In(pgsql.DefaultSchema), []any{nil, nil, nil, noon, 1000, nil, nil}, nil},
		"prune_due":        {nil, pg.PruneDue.In(pgsql.DefaultSchema), []any{noon}, slotIndex(1)},
		"past_slots":       {nil, pg.PastSlots.In(pgsql.DefaultSchema), []any{noon, afterAll, afterAll, 1000}, slotIndex(whole)},
		"ledger_trouble":   {[]string{recorded}, pg.LedgerTrouble.In(pgsql.DefaultSchema), []any{noon, afterAll, 1000}, slotIndex(100_000 + 30_000 + whole)},
		"ledger_jobs":      {[]string{recorded}, pg.LedgerJobs.In(pgsql.DefaultSchema), []any{noon, afterAll, afterAll}, slotIndex(2 * whole)},
		"board_waiting":    {nil, pg.BoardWaiting.In(pgsql.DefaultSchema), []any{"order", "1", nil, nil, true}, map[string]int64{"future_job_key": few}},
		"why":              {nil, pg.Why.In(pgsql.DefaultSchema), []any{"order", "1", nil, nil, 1000}, map[string]int64{"future_job_key": few, "future_job_pkey": few}},
		"forecast_slots":   {nil, pg.ForecastSlots.In(pgsql.DefaultSchema), []any{d.slot, strings.Replace(d.slot, "12:00", "12:15", 1)}, slotIndex(look)},
		"ledger_fill":      {nil, pg.LedgerFill.In(pgsql.DefaultSchema), []any{noon, afterAll, nil}, slotIndex(whole)},
		"ledger_gaps":      {nil, pg.LedgerGaps.In(pgsql.DefaultSchema), []any{noon, afterAll}, nil},
		"ledger_skip":      {nil, pg.LedgerSkip.In(pgsql.DefaultSchema), []any{noon, afterAll}, slotIndex(few)},
		"ledger_ahead":     {nil, pg.LedgerAhead.In(pgsql.DefaultSchema), []any{noon, noon}, nil},
		"ledger_rewind":    {nil, pg.LedgerRewind.In(pgsql.DefaultSchema), []any{noon, noon}, nil},
		"ledger_prune":     {nil, pg.LedgerPrune.In(pgsql.DefaultSchema), []any{noon, 1000}, slotIndex(few)},

		"store_read":      {nil, pg.StoreRead.In(pgsql.DefaultSchema), nil, nil},
		"store_rows":      {nil, pg.StoreRows.In(pgsql.DefaultSchema), []any{d.slot, d.job, first - 1, n, nil}, slotIndex(2 * page)},
		"store_schedules": {nil, pg.StoreSchedules.In(pgsql.DefaultSchema), []any{"", n}, nil},
		"store_receive":   {nil, pg.StoreReceive.In(pgsql.DefaultSchema), []any{"s", 1, names, repeat(1, `{"entity_key":"1"}`), repeat(1, ""), repeat(1, ""), "{}"}, nil},
		"store_give": {
			[]string{"update prescient.setting set mover = 1"},
			pg.StoreGive.In(pgsql.DefaultSchema),
			[]any{1, 1, "t", "a", "b", theSlot, slices.Repeat(jobs, n), d.ids, d.versions, empty, empty, "{}", noon},
			slotIndex(2 * page),
		},
		"store_settle": {
			[]string{received},
			pg.StoreSettle.In(pgsql.DefaultSchema),
			[]any{"s", 1, consecutive(n), "a", "b", nil},
			// To insert a row, to lock another one of its key, and to look whether one waits.
			map[string]int64{"future_job_key": 3*page + 5*few, "future_job_pkey": few},
		},
		"store_state": {nil, pg.StoreState.In(pgsql.DefaultSchema), []any{few, nil}, slotIndex(few)},
	}
}

const (
	// afterAll is after every slot of these tests.
	afterAll = "2030-04-01 12:00:00Z"
	// recorded gives every slot its row in the ledger.
	recorded = `insert into prescient.slot_run (slot, state, kind, planned, finished_at)
		select slot, 'done', 'run', 0, now() from generate_series(timestamptz '` + noon + `', '` + afterAll + `', '15 minutes') as slot
		on conflict do nothing`
)

// check returns the parameters that record a check of the first row.
func (d due) check(outcome, move any) []any {
	return []any{pg.Composite{
		d.slot, 2, 1, d.job, "remind", d.ids[0], outcome, move, afterAll, nil, nil, 0, 0, false, "me", nil, nil, nil, nil, nil, nil, nil,
	}}
}

func slotIndex(most int64) map[string]int64 { return map[string]int64{"future_job_pkey": most} }

// consecutive returns the numbers 1 to n.
func consecutive(n int) (list pq.Int64Array) {
	for i := range n {
		list = append(list, int64(i+1))
	}
	return list
}

func repeat(n int, s string) pq.StringArray { return slices.Repeat(pq.StringArray{s}, n) }

// reading counts the entries read of each index of a table. Its key with the name of the table counts
// reads of the whole table.
type reading map[string]int64

func (r reading) within(most map[string]int64) bool {
	for index, n := range r {
		if n > most[index] {
			return false
		}
	}
	return true
}

// reads runs a statement in a transaction with some settings, rolls it back, and returns what it
// read of future_job, including the functions in it. It reads the server's counters of the transaction.
func (s statement) reads(t *testing.T, db *sqlx.DB, settings string) reading {
	t.Helper()
	return s.readsOf(t, db, settings, "future_job")
}

// readsOf is reads for another table.
func (s statement) readsOf(t *testing.T, db *sqlx.DB, settings, table string) reading {
	t.Helper()
	tx := begin(t, db)
	defer func() { _ = tx.Rollback() }()
	exec(t, tx, settings)
	for _, query := range s.before {
		exec(t, tx, query)
	}
	before := counters(t, tx, table)
	var m pg.Message
	m.Add(s.query, s.args, func(*sql.Rows) error { return nil })
	if err := m.Send(t.Context(), tx); err != nil {
		t.Fatalf("%.80s: %v", s.query, err)
	}
	r := counters(t, tx, table)
	for index, n := range before {
		if r[index] -= n; r[index] == 0 {
			delete(r, index)
		}
	}
	return r
}

func counters(t *testing.T, tx *sqlx.Tx, table string) reading {
	t.Helper()
	const query = `
		select $1::text, pg_stat_get_xact_numscans(('prescient.' || $1)::regclass)
		union all
		select c.relname, pg_stat_get_xact_tuples_returned(c.oid)
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = ('prescient.' || $1)::regclass`
	r := reading{}
	_, err := pg.Collect(t.Context(), tx, query, []any{table}, func(row *sql.Rows, _ *struct{}) error {
		var name string
		var n int64
		err := row.Scan(&name, &n)
		r[name] = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func explain(t *testing.T, db *sqlx.DB, stmt pg.Statement, args ...any) string {
	t.Helper()
	var lines []string
	err := pgsql.InTx(context.WithoutCancel(t.Context()), db, func(tx *sqlx.Tx) error {
		return tx.SelectContext(t.Context(), &lines, "explain "+stmt.In(pgsql.DefaultSchema), args...)
	})
	if err != nil {
		t.Fatal(fmt.Errorf("explain %.60s: %w", stmt, err))
	}
	return strings.Join(lines, "\n")
}
