package stores_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lib/pq/pqerror"

	"github.com/prescient-go/prescient/internal/journal"
	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/replay"
	"github.com/prescient-go/prescient/internal/reserved"
	"github.com/prescient-go/prescient/internal/rule"
	"github.com/prescient-go/prescient/internal/rulestore"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/jobs/stores"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// everything is a row with a value in each column, as JSON, but for its number and what a move adds
// to its journal. It has the name of its job, because each schema gives a name another number.
const everything = `
	select to_jsonb(f) - 'id' || jsonb_build_object('job', (select j.name from prescient.job j where j.job = f.job), 'journal', (
		select jsonb_agg(value) from unnest(string_to_array(f.journal, chr(10))) as line, prescient.journal_value(line) as value
		where value ->> 'what' is distinct from 'moved'
	))
	from prescient.future_job f`

func TestARowIsMovedWithEverythingItHas(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(w.a, check("1", slot(3)))
	short, _ := journal.Check{Slot: time.Unix(900, 0), Runner: 2, Lateness: 1234 * time.Millisecond, Duration: 5 * time.Microsecond}.Short()
	exec(t, w.a, `
		insert into prescient.slot_run (slot, state, kind, planned, checked, finished_at, names)
		values (to_timestamp(900), 'done', 'run', 1, 1, to_timestamp(901), '{r1,r2}')`)
	exec(t, w.a, `
		update prescient.future_job
		set item_key = 'lamp', group_key = 'g', first_check_at = '2030-02-01', check_count = 2, error_count = 3, last_error = 'no', spent = '3.000001 s',
			journal = '{"what": "rescheduled", "at": 1, "slot": 900}' || chr(10) || '`+short+`',
			payload = '{"a": [1, null, "\\ \" '' é"], "n": 12345678901234567890.5}', enqueued_at = '2030-02-01 10:11:12.345678', enqueued_by = 'me',
			enqueued_app = 'shop', enqueued_actor = 'you', enqueued_traceparent = '00-1', requested_for = '2030-02-01 10:00:00.000001', requested_within = 3600,
			request = row('2030-02-02', 60, '{"b": 1}', 'h', 'replace', '1 day', '2030-02-01', 'she', 'shop', 'he', '00-2', 86400)`)
	if empty := get[int](t, w.a, `select count(*) from prescient.future_job f, jsonb_each(to_jsonb(f)) as c where c.value = 'null'`); empty > 0 {
		t.Fatalf("%d columns have no value: give each one", empty)
	}
	before := get[string](t, w.a, everything)
	w.drain("a")
	moved := w.move(stores.Move{From: "a", To: []string{"c"}, By: "me"})
	if moved.Rows != 1 || moved.To["c"] != 1 || moved.Left != 0 {
		t.Errorf("%+v", moved)
	}
	if diff := cmp.Diff(before, get[string](t, w.c, everything)); diff != "" {
		t.Error(diff)
	}
	if left := get[int](t, w.a, `select (select count(*) from prescient.future_job) + (select count(*) from prescient.transfer_out)`) +
		get[int](t, w.c, `select count(*) from prescient.transfer_in`); left > 0 {
		t.Errorf("%d are left", left)
	}
	events, err := admin.New(w.c.Client).Timeline(t.Context(), w.c.DB, jobs.Key{EntityName: "order", EntityKey: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var story []string
	for _, e := range events {
		story = append(story, fmt.Sprint(e.What, e.MovedFrom, e.MovedTo, e.Actor, e.Runner, e.Lateness))
	}
	if diff := cmp.Diff([]string{"enqueuedyou0s", "rescheduled0s", "nextr21.234s", "movedacme0s", "waiting0s"}, story); diff != "" {
		t.Error(diff)
	}
}

func TestTheStoryOfAScheduleIsMovedWithIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	row := check("report", slot(5))
	row.JobExec, row.EntityName = "schedule", "schedule"
	w.enqueue(w.a, row)
	short, _ := journal.Check{Slot: time.Unix(900, 0), Runner: 2, Lateness: 1234 * time.Millisecond, Duration: 5 * time.Microsecond}.Short()
	exec(t, w.a, `insert into prescient.schedule (id, crontab, anchor) values ('report', '0 * * * *', '2030-03-01')`)
	exec(t, w.a, `
		insert into prescient.slot_run (slot, state, kind, planned, checked, finished_at, names)
		values (to_timestamp(900), 'done', 'run', 1, 1, to_timestamp(901), '{r1,r2}')`)
	exec(t, w.a, `update prescient.future_job set journal = $1`, short)
	exec(t, w.a, `update prescient.schedule set sql = 'select 1', role = 'janitor', timeout = '10 minutes'`)
	const act = "select to_jsonb(s)::text from prescient.schedule s"
	before, written := get[string](t, w.a, everything), get[string](t, w.a, act)
	if moved := w.move(stores.Move{From: "a", To: []string{"b"}}); moved.Schedules != 1 {
		t.Errorf("%+v", moved)
	}
	if diff := cmp.Diff(before, get[string](t, w.b, everything)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(written, get[string](t, w.b, act)); diff != "" {
		t.Error(diff)
	}
}

func TestAPayloadOfNullIsMovedAsSuch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	for key, payload := range map[string]string{"1": `null`, "2": ``, "3": `"null"`, "4": `{"null_payload": true, "a": null}`} {
		j := check(key, slot(3))
		if payload != "" {
			j.Payload = []byte(payload)
		}
		w.enqueue(w.a, j)
	}
	const payloads = `select string_agg(coalesce(payload::text, 'none'), ' ' order by entity_key) from prescient.future_job`
	before := get[string](t, w.a, payloads)
	w.move(stores.Move{From: "a", To: []string{"b"}})
	if after := get[string](t, w.b, payloads); after != before || !strings.HasPrefix(after, "null none ") {
		t.Errorf("%s, and were %s", after, before)
	}
}

func keys(n int, at int) (list []jobs.Request) {
	for i := range n {
		list = append(list, check(fmt.Sprint(i), slot(at)))
	}
	return list
}

func TestEachRowGoesWhereByKeyPutsIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(w.a, keys(300, 5)...)
	moved := w.move(stores.Move{From: "a"}) // which is not drained: two others were added
	stays := int64(0)
	for name, s := range map[string]*stores.Store{"a": w.a, "b": w.b, "c": w.c} {
		rows := w.waiting(s)
		for key, at := range rows {
			if choice(t, w.set, key) != name || !at.Equal(slot(5)) {
				t.Errorf("%s waits in %s for %s", key, name, at)
			}
		}
		if name == "a" {
			stays = int64(len(rows))
		} else if moved.To[name] != int64(len(rows)) || len(rows) == 0 {
			t.Errorf("%d rows wait in %s: %+v", len(rows), name, moved)
		}
	}
	if stays == 0 || moved.Left != stays || moved.Rows != 300-stays {
		t.Errorf("%d stay: %+v", stays, moved)
	}
	w.drain("a")
	if moved := w.move(stores.Move{From: "a"}); moved.Rows != stays || moved.Left != 0 {
		t.Errorf("%+v", moved)
	}
	if n := len(w.waiting(w.b)) + len(w.waiting(w.c)); n != 300 {
		t.Errorf("%d rows wait", n)
	}
}

// Otherwise applications, which ask the store of Route, would not find the rows that belong elsewhere.
func TestOfAStoreThatIsNotDrainedOnlyRowsThatBelongToATargetMove(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(w.a, keys(100, 5)...)
	moved := w.move(stores.Move{From: "a", To: []string{"b"}})
	if n := int64(len(w.waiting(w.b))); n == 0 || moved.Rows != n || moved.Left != 100-n {
		t.Errorf("%d rows wait in b: %+v", n, moved)
	}
	for _, s := range []*stores.Store{w.a, w.b} {
		for key := range w.waiting(s) {
			if (choice(t, w.set, key) == "b") != (s.Name == "b") {
				t.Errorf("%s of %s waits in %s", key, choice(t, w.set, key), s.Name)
			}
		}
	}
	w.drain("a")
	w.move(stores.Move{From: "a", To: []string{"b"}})
	if n := len(w.waiting(w.b)); n != 100 {
		t.Errorf("%d of all 100 rows wait in b", n)
	}
}

func TestWhatFinishesAMoveMovesNothingElse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.enqueue(w.a, keys(30, 5)...)
	exec(t, w.a, `
		insert into prescient.transfer_out (batch, target, source_name, target_name, given, given_at)
		values (7, $1, 'a', 'b', '{1}', now())`, get[string](t, w.b, "select store from prescient.setting"))
	for _, name := range []string{"a", "b", "c"} { // none gets anything new
		w.drain(name)
	}
	moved := w.move(stores.Move{From: "a", Finish: true})
	if moved.Finished != 1 || moved.Rows != 0 || moved.Left != 30 {
		t.Errorf("%+v", moved)
	}
	if n := get[int](t, w.a, "select count(*) from prescient.transfer_out"); n != 0 {
		t.Errorf("%d batches are on their way", n)
	}
}

func TestRowsGoByAFieldOfTheirPayloadWhereApplicationsDo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var list []jobs.Request
	tenants := map[string]string{}
	for i := range 100 {
		j := check(fmt.Sprint(i), slot(5))
		tenants[j.EntityKey] = fmt.Sprint(i % 7)
		if j.Payload = fmt.Appendf(nil, `{"tenant": "%d"}`, i%7); i%2 == 0 {
			j.Payload = fmt.Appendf(nil, `{"tenant": %d}`, i%7)
		}
		list = append(list, j)
	}
	w.enqueue(w.a, append(list, check("none", slot(5)))...)
	w.drain("a")
	moved := w.move(stores.Move{From: "a", Field: "tenant"})
	if moved.Rows != 100 || moved.Keyless != 1 || moved.Left != 1 {
		t.Errorf("%+v", moved)
	}
	for _, s := range []*stores.Store{w.b, w.c} {
		for key := range w.waiting(s) {
			if got := choice(t, w.set, tenants[key]); got != s.Name {
				t.Errorf("tenant %s waits in %s, and is %s's", tenants[key], s.Name, got)
			}
		}
	}
}

func TestRowsOfSlotsThatHaveBegunOrAreAboutToAreLeftToTheRunsOfTheirStore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	near := stores.Store{Name: "a", DB: w.a.DB}
	set, err := stores.New(t.Context(), []stores.Store{near, {Name: "b", DB: w.b.DB}}, jobs.Config{Now: func() time.Time { return slot(2).Add(-30 * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	w.enqueue(w.a, check("begun", slot(1)), check("near", slot(2)), check("far", slot(3)))
	moved, err := set.Move(t.Context(), stores.Move{From: "a", To: []string{"b"}})
	if err != nil || moved.Rows != 1 || moved.Left != 2 {
		t.Errorf("%+v, %v", moved, err)
	}
	if diff := cmp.Diff(map[string]time.Time{"far": slot(3)}, w.waiting(w.b)); diff != "" {
		t.Error(diff)
	}
}

// Also rows that wait for each slot, such as those of schedules. Nothing but a move in the first half of a slot gets them.
func TestAStoreWithSlotsOfAMinuteIsEmptiedOfWhatRunsInEachSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	exec(t, w.a, "select prescient.set_width('1 minute', $1)", now)
	set := newSet(t, stores.Store{Name: "a", DB: w.a.DB}, stores.Store{Name: "b", DB: w.b.DB})
	row := check("each", now.Add(time.Minute))
	row.JobExec, row.EntityName = "schedule", "schedule"
	w.enqueue(w.a, row, check("order", now.Add(time.Minute)))
	exec(t, w.a, "insert into prescient.schedule (id, crontab, anchor) values ('each', '* * * * *', '2030-03-01')")
	w.drain("a")
	moved, err := set.Move(t.Context(), stores.Move{From: "a"})
	if err != nil || moved.Schedules != 1 || moved.Rows != 1 || moved.Left != 0 {
		t.Errorf("%+v, %v", moved, err)
	}
}

func TestARowGetsTheNextSlotWhereTheOtherStoreHasNoSuchSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	exec(t, w.b, "select prescient.set_width('1 hour', $1)", now)
	w.enqueue(w.a, check("half past one", slot(6)), check("two", slot(8)))
	w.move(stores.Move{From: "a", To: []string{"b"}})
	want := map[string]time.Time{"half past one": slot(8), "two": slot(8)}
	if diff := cmp.Diff(want, w.waiting(w.b)); diff != "" {
		t.Error(diff)
	}
}

func TestOfAKeyThatWaitsInTheOtherStoreThatRowStays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)), check("2", slot(5)))
	w.enqueue(w.b, check("1", slot(9)))
	var anonymous jobs.Request
	for _, s := range []*stores.Store{w.a, w.b} {
		anonymous = check("3", slot(5))
		anonymous.Anonymous = true
		w.enqueue(s, anonymous)
	}
	moved := w.move(stores.Move{From: "a", To: []string{"b"}})
	if moved.Rows != 3 || moved.Replaced != 1 || moved.Cancelled != 0 {
		t.Errorf("%+v", moved)
	}
	if n := get[int](t, w.b, "select count(*) from prescient.future_job where item_key is null"); n != 2 {
		t.Errorf("%d anonymous rows", n)
	}
	exec(t, w.b, "delete from prescient.future_job where item_key is null")
	if diff := cmp.Diff(map[string]time.Time{"1": slot(9), "2": slot(5)}, w.waiting(w.b)); diff != "" {
		t.Error(diff)
	}
	ended, err := seq.Collect(admin.New(w.b.Client).History(t.Context(), w.b.DB, admin.HistoryFilter{}))
	if err != nil || len(ended) != 1 || ended[0].Outcome != jobs.OutcomeReplaced || ended[0].EntityKey != "1" || !ended[0].Slot.Equal(slot(5)) {
		t.Errorf("%+v, %v", ended, err)
	}
}

func TestARowThatArrivesWhileItsKeyIsBeingCheckedIsRecordedAsARequest(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	exec(t, w.b, `update prescient.setting set since = $1`, slot(1))
	w.enqueue(w.b, check("1", slot(1)), check("2", slot(1)))
	begun := func() time.Time { return slot(1).Add(time.Second) }
	set, err := stores.New(t.Context(), []stores.Store{{Name: "a", DB: w.a.DB}, {Name: "b", DB: w.b.DB}}, jobs.Config{Now: begun})
	if err != nil {
		t.Fatal(err)
	}
	// What of the arriving row is not about its checks.
	const given = `
		select to_jsonb(f) - array['id', 'journal', 'last_error', 'request', 'requested_for', 'requested_within']
		from prescient.future_job f`
	var want string
	registry := jobs.NewRegistry()
	registry.Register("remind", jobs.Batch(func(ctx context.Context, rows []jobs.FutureJob) ([]jobs.Result, error) {
		w.enqueue(w.a, check("1", slot(5)))
		exec(t, w.a, `
			update prescient.future_job
			set group_key = 'g', payload = '{"a": 1}', enqueued_app = 'shop', enqueued_actor = 'you',
				enqueued_traceparent = '00-1'`)
		if want = get[string](t, w.a, given); strings.Contains(want, ": null") {
			t.Errorf("a column has no value: %s", want)
		}
		moved, err := set.Move(ctx, stores.Move{From: "a", To: []string{"b"}})
		if moved.Rows != 1 || moved.Replaced != 1 {
			t.Errorf("%+v", moved)
		}
		return make([]jobs.Result, len(rows)), err
	}))
	runner, err := slots.NewRunner(t.Context(), slots.Config{DB: w.b.DB, Registry: registry, Now: begun, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Time{"1": slot(5)}, w.waiting(w.b)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, get[string](t, w.b, given)); diff != "" {
		t.Error(diff)
	}
	ended := get[string](t, w.b, `select string_agg(entity_key || ' ' || outcome, ', ' order by entity_key, outcome) from prescient.future_job_history`)
	if ended != "1 done, 1 replaced, 2 done" {
		t.Error(ended)
	}
}

// The first transaction that enqueues a job writes its name. Others do not wait for it, so they may commit before it. In the
// other store such a row would end without the name of its job, and a cancel by the name would not find it on its way.
func TestARowStaysUntilTheNameOfItsJobHasCommitted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	first, err := pg.Sqlx(w.a.DB).BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback() }()
	if _, err := w.a.Client.Enqueue(t.Context(), first, check("1", slot(5))); err != nil {
		t.Fatal(err)
	}
	w.enqueue(w.a, check("2", slot(5)))
	w.enqueue(w.b, check("2", slot(9)))
	if moved := w.move(stores.Move{From: "a", To: []string{"b"}}); moved.Rows != 0 || moved.Left != 1 {
		t.Errorf("%+v", moved)
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	if moved := w.move(stores.Move{From: "a", To: []string{"b"}}); moved.Rows != 2 || moved.Replaced != 1 || moved.Left != 0 {
		t.Errorf("%+v", moved)
	}
	ended := get[string](t, w.b, `select string_agg(job_exec || ' ' || entity_key || ' ' || outcome, ', ') from prescient.future_job_history`)
	if ended != "remind 2 replaced" {
		t.Error(ended)
	}
}

// late is a rule on a table that both stores have.
const late = `rules: [{name: order.late, table: shop.orders, key: id, since: placed_at, done: shipped_at, ` +
	`overdue: skip, steps: [{after: 48h, event: order.late}]}]`

// applyLate makes a table of orders in a store, and applies the rule to it.
func applyLate(t *testing.T, s *stores.Store) *rulestore.Store {
	t.Helper()
	exec(t, s, pgtest.CreateSchema("shop"))
	exec(t, s, "create table shop.orders (id bigint primary key, placed_at timestamptz, shipped_at timestamptz)")
	file, err := rule.Parse(strings.NewReader(late))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rulestore.New(t.Context(), s.DB, rulestore.Config{Schema: s.Schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rules.Apply(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	return rules
}

// In another store, the check of a rule would find no row of its table, and the row of a periodic function would end as
// replaced: its instant would never run.
func TestTheChecksOfRulesAndOfPeriodicFunctionsStayInTheirStore(t *testing.T) {
	t.Parallel()
	w := setup(t)
	registry := jobs.NewRegistry()
	registry.Periodic("report", "0 9 * * *", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	for _, s := range []*stores.Store{w.a, w.b} {
		if err := s.Client.EnqueuePeriodic(reserved.Caller{}, t.Context(), s.DB, registry); err != nil {
			t.Fatal(err)
		}
	}
	rules := applyLate(t, w.a)
	applyLate(t, w.b)
	exec(t, w.a, "insert into shop.orders (id, placed_at) values (42, $1)", now)
	other := check("report", slot(5)) // of the same entity, and of another job
	other.EntityName = "periodic"
	w.enqueue(w.a, check("1", slot(5)), other)
	w.drain("a")
	moved := w.move(stores.Move{From: "a", To: []string{"b"}})
	if moved.Rows != 2 || moved.Replaced != 0 || moved.Left != 2 {
		t.Errorf("%+v", moved)
	}
	nine := time.Date(2030, time.March, 2, 9, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(map[string]time.Time{"42": slot(0).Add(48*time.Hour + 15*time.Minute), "report": nine}, w.waiting(w.a)); diff != "" {
		t.Error(diff)
	}
	state := func(set *stores.Set) stores.State {
		t.Helper()
		a, err := set.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		state, err := a.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if s := state(w.set); s.Empty() || s != (stores.State{Waiting: 1, Periodic: 1, Rules: 1}) {
		t.Errorf("%+v", s)
	}
	if _, err := rules.Remove(t.Context(), "order.late", nil); err != nil {
		t.Fatal(err)
	}
	if s := state(w.set); !s.Empty() || s != (stores.State{Periodic: 1}) {
		t.Errorf("without the rule: %+v", s)
	}
	for what, change := range map[string]string{
		"a retry waits":                          "error_count = 1",
		"the function looks again":               "check_count = 1",
		"its instant has come":                   `payload = '{"instant": "2020-01-01T09:00:00Z"}'`,
		"an application has written the payload": `payload = '[1]'`,
		"it has no payload":                      "payload = null",
	} {
		exec(t, w.a, "create table public.was as table prescient.future_job")
		exec(t, w.a, "update prescient.future_job set "+change)
		if s := state(w.set); s.Empty() || s != (stores.State{Waiting: 1}) {
			t.Errorf("%s: %+v", what, s)
		}
		exec(t, w.a, "update prescient.future_job set (error_count, check_count, payload) = (select error_count, check_count, payload from public.was)")
		exec(t, w.a, "drop table public.was")
	}
	due, err := stores.New(t.Context(), []stores.Store{{Name: "a", DB: w.a.DB}}, jobs.Config{Now: func() time.Time { return nine }})
	if err != nil {
		t.Fatal(err)
	}
	if s := state(due); s.Empty() || s != (stores.State{Waiting: 1}) {
		t.Errorf("with an instant that has come: %+v", s)
	}
}

func TestARuleThatIsAppliedWhileItsRowsAreCopiedKeepsThem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table prescient.transfer_in in exclusive mode")
	moved, ended := moveThatWaits(t, w.set, w.b)
	exec(t, w.a, "insert into prescient.rule (name, relation, definition) values ('remind', 'shop.orders', '{}')")
	if err := errors.Join(holder.Rollback(), <-ended); err != nil || moved.Rows != 0 || moved.Left != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
	if diff := cmp.Diff(map[string]time.Time{"1": slot(5)}, w.waiting(w.a)); diff != "" {
		t.Error(diff)
	}
}

func TestAPausedJobIsPausedInTheOtherStoreToo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	if _, err := admin.New(w.a.Client).Pause(t.Context(), w.a.DB, "remind"); err != nil {
		t.Fatal(err)
	}
	moved := w.move(stores.Move{From: "a", To: []string{"b"}})
	if diff := cmp.Diff(map[string][]string{"b": {"remind"}}, moved.Paused); diff != "" || moved.Rows != 1 {
		t.Errorf("%+v %s", moved, diff)
	}
	paused, err := admin.New(w.b.Client).Paused(t.Context(), w.b.DB)
	if err != nil || len(paused) != 1 || paused[0].JobExec != "remind" {
		t.Errorf("%+v, %v", paused, err)
	}
}

func TestAStoreIsEmptyWhenNobodyWaitsForAnythingInIt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	state := func() stores.State {
		t.Helper()
		state, err := w.a.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if s := state(); !s.Empty() || !s.LastSlot.IsZero() {
		t.Errorf("%+v", s)
	}
	for what, statements := range map[string][2]string{
		"Waiting": {"select prescient.enqueue('remind', 'order', '1', check_at => '2030-03-02')", "select prescient.cancel_entity('order', '1')"},
		"Schedules": {
			"insert into prescient.schedule (id, crontab, anchor, paused) values ('a', '0 * * * *', '2030-03-01', true)", "delete from prescient.schedule",
		},
		"Rules":     {"insert into prescient.rule (name, relation, definition) values ('order.late', 'shop.orders', '{}')", "delete from prescient.rule"},
		"Leaving":   {"insert into prescient.transfer_out (batch, target, source_name, target_name, given) values (1, 'x', 'a', 'x', '{1, 2}')", "delete from prescient.transfer_out"},
		"Arriving":  {"insert into prescient.transfer_in (source, batch, nth, job_exec, entity_name, entity_key) values ('x', 1, 1, 'remind', 'order', '1')", "delete from prescient.transfer_in"},
		"OpenSlots": {"insert into prescient.slot_run (slot, state, kind, planned) values ('2030-03-01 12:00Z', 'open', 'run', 0)", "delete from prescient.slot_run"},
		"Unread": {
			"insert into prescient.event_consumer (name, mark, position) values ('desk', '0', 0); insert into prescient.event_outbox (id, source, type) values ('1', 'shop', 'a')",
			"update prescient.event_consumer set (mark, position) = (select mark, position from prescient.event_outbox)",
		},
		"Undelivered": {
			"insert into prescient.event_dead (consumer, id, source, type, send_at) values ('desk', '1', 'shop', 'a', '2030-03-02')", "delete from prescient.event_dead",
		},
	} {
		exec(t, w.a, statements[0])
		if s := state(); s.Empty() {
			t.Errorf("it is empty with %s: %+v", what, s)
		}
		exec(t, w.a, statements[1])
		if s := state(); !s.Empty() {
			t.Errorf("it is not without %s: %+v", what, s)
		}
	}
	exec(t, w.a, "insert into prescient.slot_run (slot, state, kind, planned, finished_at) values ('2030-03-01 12:00Z', 'done', 'run', 0, now())")
	if s := state(); !s.Empty() || !s.LastSlot.Equal(slot(0)) {
		t.Errorf("%+v", s)
	}
}

// A number below the limit would read as exact.
func TestACountOfRowsThatHasStoppedIsTheLimit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	registry := jobs.NewRegistry()
	registry.Periodic("report", "0 9 * * *", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	if err := w.a.Client.EnqueuePeriodic(reserved.Caller{}, t.Context(), w.a.DB, registry); err != nil {
		t.Fatal(err)
	}
	last := check("last", now.AddDate(0, 1, 0))
	w.enqueue(w.a, last)
	exec(t, w.a, `
		insert into prescient.future_job (job, next_check_at, first_check_at, entity_name, entity_key)
		select job, next_check_at, first_check_at, entity_name, n::text
		from prescient.future_job, generate_series(1, $1::integer) as n where entity_key = 'last'`, stores.Counted)
	w.drain("a")
	state, err := w.a.State(t.Context())
	if err != nil || state != (stores.State{Waiting: stores.Counted, Periodic: 1}) {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestAMoveThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("c")
	for want, what := range map[string]stores.Move{
		`there is no store "x"`:           {From: "x"},
		`there is no store "y"`:           {From: "a", To: []string{"y"}},
		"store a is where the rows are":   {From: "a", To: []string{"b", "a"}},
		"store c is being drained itself": {From: "a", To: []string{"c"}},
	} {
		if _, err := w.set.Move(t.Context(), what); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	twice := newSet(t, stores.Store{Name: "a", DB: w.a.DB}, stores.Store{Name: "z", DB: w.a.DB})
	if _, err := twice.Move(t.Context(), stores.Move{From: "a", To: []string{"z"}}); err == nil || !strings.Contains(err.Error(), "the same schema") {
		t.Error(err)
	}
	exec(t, w.b, "update prescient.setting set schema_version = schema_version + 1")
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	if _, err := w.set.Move(t.Context(), stores.Move{From: "a", To: []string{"b"}}); err == nil || !strings.Contains(err.Error(), "bring both to the same") {
		t.Error(err)
	}
	if n := len(w.waiting(w.a)); n != 1 {
		t.Errorf("%d rows wait", n)
	}
}

// waits tells whether a session of the database waits for a lock.
func waits(t *testing.T, s *stores.Store) bool {
	t.Helper()
	return get[bool](t, s, `select exists (select from pg_locks where not granted and database = (select oid from pg_database where datname = current_database()))`)
}

// moveThatWaits starts a move from a to b, and returns once it waits for a lock in a store. moved is written before ended.
func moveThatWaits(t *testing.T, set *stores.Set, s *stores.Store) (moved *stores.Moved, ended chan error) {
	t.Helper()
	moved, ended = new(stores.Moved), make(chan error, 1)
	go func() {
		var err error
		*moved, err = set.Move(t.Context(), stores.Move{From: "a", To: []string{"b"}})
		ended <- err
	}()
	for !waits(t, s) {
		select {
		case err := <-ended:
			t.Fatalf("it did not wait for the lock: %v", err)
		default:
		}
	}
	return moved, ended
}

func TestAMoveThatIsStoppedBetweenTwoWaitsForALockTellsWhy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table prescient.transfer_in in exclusive mode")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		_, err := w.set.Move(ctx, stores.Move{From: "a", To: []string{"b"}})
		ended <- err
	}()
	for !waits(t, w.b) {
	}
	for waits(t, w.b) {
	}
	stopped := errors.New("stopped")
	cancel(stopped)
	if err := <-ended; !errors.Is(err, stopped) || pg.IsLockTimeout(err) {
		t.Error(err)
	}
}

// A row that a trigger keeps, or does not let in, would be in two stores, or in none.
func TestAMoveFailsIfATriggerSuppressesIt(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of the schema")
	for name, anonymous := range map[string]bool{"delete": true, "insert": true, "insert of a named row": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.drain("a")
			row := check("1", slot(5))
			row.Anonymous = anonymous
			w.enqueue(w.a, row)
			operation, at := name[:6], w.b
			if operation == "delete" {
				at = w.a
			}
			exec(t, at, `create function public.ignore() returns trigger language plpgsql as $$begin return null; end$$;
				create trigger ignore before `+operation+` on prescient.future_job for each row execute function public.ignore()`)
			_, err := w.set.Move(t.Context(), stores.Move{From: "a", To: []string{"b"}})
			repeated := !anonymous && pg.HasState(err, pqerror.TRSerializationFailure)
			if !repeated && !pg.HasState(err, pqerror.TriggeredDataChangeViolation) {
				t.Errorf("want an error that names the trigger, got %v", err)
			}
		})
	}
}

func TestAMoveCountsOnceWhatItsCommitsRepeat(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "it has no triggers on the tables of a distributed schema")
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	w.enqueue(w.b, check("1", slot(9)))
	if _, err := admin.New(w.a.Client).Pause(t.Context(), w.a.DB, "remind"); err != nil {
		t.Fatal(err)
	}
	exec(t, w.b, `create sequence public.commits;
		create function public.fail_first() returns trigger language plpgsql as $$begin
			if nextval('public.commits') % 2 = 1 then raise serialization_failure; end if; return null; end$$;
		create constraint trigger fail_first after insert or delete on prescient.transfer_in
			deferrable initially deferred for each row execute function public.fail_first()`)
	moved := w.move(stores.Move{From: "a", To: []string{"b"}})
	if diff := cmp.Diff([]any{int64(1), int64(1), []string{"remind"}}, []any{moved.Rows, moved.Replaced, moved.Paused["b"]}); diff != "" {
		t.Error(diff)
	}
	if n := get[int](t, w.b, "select last_value from public.commits"); n != 4 {
		t.Errorf("%d commits, not each of two twice", n)
	}
}

func TestWhoOpensASlotAndWhoTakesARowOutOfItWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	opening, err := pg.Sqlx(w.a.DB).BeginTxx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opening.Rollback() }()
	if _, err := opening.ExecContext(t.Context(), `select prescient.lock_slot($1, true)`, slot(5)); err != nil {
		t.Fatal(err)
	}
	_, ended := moveThatWaits(t, w.set, w.a)
	if n := len(w.waiting(w.a)); n != 1 {
		t.Errorf("%d rows wait", n)
	}
	if err := errors.Join(opening.Rollback(), <-ended); err != nil || len(w.waiting(w.b)) != 1 {
		t.Error(err)
	}
}

// The mover has read the row before its slot begins, and waits to write the copy.
func TestARowWhoseSlotBeginsWhileItIsCopiedStays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	clock := replay.NewClock(now)
	set, err := stores.New(t.Context(), []stores.Store{{Name: "a", DB: w.a.DB}, {Name: "b", DB: w.b.DB}}, jobs.Config{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	w.enqueue(w.a, check("begun", slot(5)), check("far", slot(9)))
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("lock table prescient.transfer_in in exclusive mode")
	moved, ended := moveThatWaits(t, set, w.b)
	clock.Set(slot(5))
	if err := errors.Join(holder.Rollback(), <-ended); err != nil || moved.Rows != 1 || moved.Left != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
	if diff := cmp.Diff(map[string]time.Time{"begun": slot(5)}, w.waiting(w.a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]time.Time{"far": slot(9)}, w.waiting(w.b)); diff != "" {
		t.Error(diff)
	}
}

func TestACancelEndsTheRowThatWaitsAndTheOneOnItsWay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	w.enqueue(w.b, check("1", slot(9)))
	opening := pg.Sqlx(w.a.DB).MustBegin()
	defer func() { _ = opening.Rollback() }()
	opening.MustExec(`select prescient.lock_slot($1, true)`, slot(5))
	moved, ended := moveThatWaits(t, w.set, w.a)
	if ok, err := w.b.Client.Cancel(t.Context(), jobs.OwnTx(w.b.DB), check("1", slot(9)).Key()); err != nil || !ok {
		t.Errorf("cancelled %t, %v", ok, err)
	}
	if waiting := w.waiting(w.b); len(waiting) > 0 {
		t.Errorf("waiting after the cancel: %v", waiting)
	}
	if err := errors.Join(opening.Rollback(), <-ended); err != nil {
		t.Fatal(err)
	}
	if waiting := w.waiting(w.b); len(waiting) > 0 || moved.Cancelled != 1 {
		t.Errorf("waiting after the move: %v, %+v", waiting, moved)
	}
}

func TestACancelOfManyChecksFindsARowOnItsWayOnceItHasArrived(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	w.enqueue(w.a, check("1", slot(5)))
	opening := pg.Sqlx(w.a.DB).MustBegin()
	defer func() { _ = opening.Rollback() }()
	opening.MustExec(`select prescient.lock_slot($1, true)`, slot(5))
	_, ended := moveThatWaits(t, w.set, w.a)
	filter := admin.CancelFilter{JobExec: "remind"}
	cancel := func() int64 {
		t.Helper()
		done, err := admin.New(w.b.Client).CancelAll(t.Context(), w.b.DB, filter, admin.CancelOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return done.Cancelled
	}
	if n := cancel(); n != 0 {
		t.Errorf("%d cancelled during the move", n)
	}
	if err := errors.Join(opening.Rollback(), <-ended); err != nil {
		t.Fatal(err)
	}
	if n := cancel(); n != 1 {
		t.Errorf("%d cancelled after the move", n)
	}
}

func TestACancelOfAnEntityLeavesTheCheckOfAScheduleThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.drain("a")
	own := jobs.Request{JobExec: "remind", EntityName: "schedule", EntityKey: "report", CheckAt: slot(5)}
	scheduled := own
	scheduled.JobExec = "schedule"
	w.enqueue(w.a, own, scheduled)
	opening := pg.Sqlx(w.a.DB).MustBegin()
	defer func() { _ = opening.Rollback() }()
	opening.MustExec(`select prescient.lock_slot($1, true)`, slot(5))
	_, ended := moveThatWaits(t, w.set, w.a)
	n, err := w.b.Client.CancelEntity(t.Context(), jobs.OwnTx(w.b.DB), "schedule", "report")
	if err != nil || n != 1 {
		t.Errorf("%d checks are cancelled, %v", n, err)
	}
	if err := errors.Join(opening.Rollback(), <-ended); err != nil {
		t.Fatal(err)
	}
	list, err := seq.Collect(admin.New(w.b.Client).List(t.Context(), w.b.DB, admin.Filter{}))
	if err != nil || len(list) != 1 || list[0].JobExec != "schedule" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Slots are a second apart here, and the clock is the database's.
func TestARowThatWaitsForTheCheckOfItsKeyOverABoundaryDoesNotGoIntoThePast(t *testing.T) {
	t.Parallel()
	w := setup(t)
	exec(t, w.b, "select prescient.set_width('1 second')")
	exec(t, w.b, "select prescient.enqueue('remind', 'order', '1', check_at => clock_timestamp())")
	exec(t, w.b, `insert into prescient.slot_run (slot, state, kind, planned) select next_check_at, 'open', 'run', 1 from prescient.future_job`)
	exec(t, w.b, `insert into prescient.slot_job (slot, job, planned, cursor) select next_check_at, job, 1, id from prescient.future_job`)
	for !get[bool](t, w.b, "select next_check_at <= clock_timestamp() from prescient.future_job") {
	}
	asked := get[time.Time](t, w.b, "select prescient.slot_ceil(clock_timestamp() + interval '1 second')")
	row := get[string](t, w.b, "select to_jsonb(f) from prescient.future_job f")
	exec(t, w.b, `insert into prescient.transfer_in (source, batch, nth, job_exec, entity_name, entity_key, item_key, data)
		values ('a', 1, 1, 'remind', 'order', '1', '', ($1::jsonb || jsonb_build_object('next_check_at', $2::timestamptz))::json)`, row, asked)
	holder := pg.Sqlx(w.b.DB).MustBegin()
	defer func() { _ = holder.Rollback() }()
	holder.MustExec("select from prescient.future_job for update")
	var moving sync.WaitGroup
	moving.Go(func() { exec(t, w.b, "select prescient.settle_rows('a', 1, array[1], 'a', 'b')") })
	pgtest.AwaitWaits(t, pg.Sqlx(w.b.DB), 1)
	released := pgtest.AwaitClock(t, pg.Sqlx(w.b.DB), asked.Add(time.Second))
	holder.MustExec("delete from prescient.future_job") // as a check that ends its row
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	moving.Wait()
	if at := w.waiting(w.b)["1"]; !at.After(released) {
		t.Errorf("it was put into slot %s at %s", at, released)
	}
}
