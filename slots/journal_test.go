package slots_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/prescient-go/prescient/internal/duration"
	"github.com/prescient-go/prescient/internal/journal"
	"github.com/prescient-go/prescient/internal/spoken"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/jobs/admin"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/ledger"
	pgsql "github.com/prescient-go/prescient/sql"
)

// life records what the test has seen of the rows of one key.
type life struct {
	events []string
	slot   int // of the row that waits; 0: none does
	checks int
	errors int // in a row
}

func (l *life) add(what string, slot int) { l.events = append(l.events, what+" "+strconv.Itoa(slot)) }

// lives are keys that things happen to, at random.
type lives struct {
	*world
	rnd  *rand.Rand
	keys []*life
}

// pick returns some of the keys that wait, or of those that do not.
func (l *lives) pick(share float64, waiting bool) (some []string) {
	for i, k := range l.keys {
		if (k.slot > 0) == waiting && l.rnd.Float64() < share {
			some = append(some, strconv.Itoa(i))
		}
	}
	return some
}

// change does something to keys by one statement, and tells the life of each of it.
func (l *lives) change(query string, keys []string, at time.Time, tell func(k *life)) {
	l.t.Helper()
	err := pgsqlInTx(l, func(tx *sqlx.Tx) error {
		if err := jobs.SetActor(l.t.Context(), tx, "alice"); err != nil {
			return err
		}
		_, err := tx.Exec(query, pq.Array(keys), at, l.clock.Now())
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, key := range keys {
		n, _ := strconv.Atoi(key)
		tell(l.keys[n])
	}
}

func pgsqlInTx(l *lives, fn func(tx *sqlx.Tx) error) error {
	tx, err := l.db.Beginx()
	if err != nil {
		return err
	}
	return errors.Join(fn(tx), tx.Commit())
}

func (l *lives) enqueue(share float64, to int) {
	l.change(`select prescient.enqueue('job', 'order', k, check_at => case when set_config('prescient_caller.clock', ($3)::timestamptz::text, true) is not null then ($2)::timestamptz end) from unnest($1::text[]) as k`,
		l.pick(share, false), slot(to).Add(-time.Second), func(k *life) { k.add("enqueued", to); k.slot, k.errors = to, 0 })
}

func (l *lives) move(share float64, to int) {
	l.change(`select prescient.reschedule('job', 'order', k, check_at => case when set_config('prescient_caller.clock', ($3)::timestamptz::text, true) is not null then ($2)::timestamptz end) from unnest($1::text[]) as k`,
		l.pick(share, true), slot(to), func(k *life) { k.add("rescheduled", k.slot); k.slot = to })
}

func (l *lives) pushBack(share float64, to int) {
	l.change(`select prescient.push_back('job', 'order', k, check_at => case when set_config('prescient_caller.clock', ($3)::timestamptz::text, true) is not null then ($2)::timestamptz end) from unnest($1::text[]) as k`,
		l.pick(share, true), slot(to), func(k *life) {
			if to > k.slot {
				k.add("pushed_back", k.slot)
				k.slot = to
			}
		})
}

func (l *lives) cancel(share float64) {
	l.change(`select prescient.cancel('job', 'order', k) from unnest($1::text[]) as k where $2::timestamptz is not null and $3::timestamptz is not null`,
		l.pick(share, true), slot(0), func(k *life) { k.add("cancelled", k.slot); k.slot = 0 })
}

func (l *lives) replace(share float64, to int) {
	l.change(`select prescient.enqueue('job', 'order', k, check_at => case when set_config('prescient_caller.clock', ($3)::timestamptz::text, true) is not null then ($2)::timestamptz end, on_conflict => 'replace') from unnest($1::text[]) as k`,
		l.pick(share, true), slot(to), func(k *life) { k.add("replaced", k.slot); k.add("enqueued", to); k.slot, k.errors = to, 0 })
}

// check is the nth check of a key: it is done, asks for another check in a later slot, or fails.
func check(key string, nth, now int) (next int, err error) {
	n, _ := strconv.Atoi(key)
	switch r := rand.New(rand.NewPCG(uint64(n), uint64(nth))).IntN(10); {
	case r < 4:
		return 0, nil
	case r < 7:
		return now + 1 + r%3, nil
	default:
		return 0, fmt.Errorf("boom %d", nth)
	}
}

// run runs a slot, and tells each life what became of it.
func (l *lives) run(now int) {
	l.t.Helper()
	l.clock.Set(slot(now))
	l.world.run(slot(now))
	for i, k := range l.keys {
		if k.slot != now {
			continue
		}
		next, err := check(strconv.Itoa(i), k.checks, now)
		k.checks++
		switch {
		case err != nil && k.errors == 2:
			k.add("failed", now)
			k.slot = 0
		case err != nil:
			k.add("retry", now)
			k.slot = now + 1<<k.errors
			k.errors++
		case next > 0:
			k.add("next", now)
			k.slot, k.errors = next, 0
		default:
			k.add("done", now)
			k.slot = 0
		}
	}
}

// The story of a check can always be told, from its row alone.
func TestThousandsOfLivesCanBeToldFromTheirJournals(t *testing.T) {
	if testing.Short() {
		t.Skip("it tells thousands of lives")
	}
	t.Parallel()
	l := &lives{world: setup(t), rnd: rand.New(rand.NewPCG(1, 2))}
	number := 1000
	if os.Getenv(longVariable) != "" {
		number = 10_000
	}
	for range number {
		l.keys = append(l.keys, &life{})
	}
	checks := map[string]int{}
	l.registry.Register("job", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		for i, job := range batch {
			now := int(job.Slot.Sub(slot(0)) / (15 * time.Minute))
			next, err := check(job.EntityKey, checks[job.EntityKey], now)
			checks[job.EntityKey]++
			if results[i].Err = err; next > 0 {
				results[i].Next = new(slot(next))
			}
		}
		return results, nil
	}), jobs.Retry(2), jobs.MaxChecks(100), jobs.Concurrency(1))
	for now := range 8 {
		l.clock.Set(slot(now))
		l.enqueue(0.5, now+1+l.rnd.IntN(3))
		l.move(0.1, now+1+l.rnd.IntN(3))
		l.pushBack(0.1, now+1+l.rnd.IntN(3))
		l.cancel(0.05)
		l.replace(0.05, now+1+l.rnd.IntN(3))
		l.run(now + 1)
	}
	l.compare()
}

// compare compares what the database tells of each key with what has happened to it.
func (l *lives) compare() {
	l.t.Helper()
	var told []struct {
		Key, What string
		Slot      time.Time
		Actor     string
		Error     string
		At        *time.Time
	}
	err := l.db.Select(&told, `select k as key, w.what, w.slot, coalesce(w.actor, '') as actor, coalesce(w.error, '') as error, w.at
		from generate_series(0, $1 - 1) as n, lateral (select n::text as k) as key, lateral prescient.why('order', k) with ordinality as w
		order by n, w.ordinality`, len(l.keys))
	if err != nil {
		l.t.Fatal(err)
	}
	got := map[string][]string{}
	for _, e := range told {
		n := int(e.Slot.Sub(slot(0)) / (15 * time.Minute))
		got[e.Key] = append(got[e.Key], e.What+" "+strconv.Itoa(n))
		if byHand := slices.Contains([]string{"enqueued", "rescheduled", "pushed_back", "cancelled", "replaced"}, e.What); byHand != (e.Actor == "alice") {
			l.t.Errorf("%s of %s was done by %q", e.What, e.Key, e.Actor)
		}
		if failed := e.What == "retry" || e.What == "failed"; failed != (e.Error != "") {
			l.t.Errorf("%s of %s has the error %q", e.What, e.Key, e.Error)
		}
		if (e.At == nil) != (e.What == "waiting") {
			l.t.Errorf("%s of %s was at %v", e.What, e.Key, e.At)
		}
	}
	events := 0
	for i, k := range l.keys {
		want := k.events
		if k.slot > 0 {
			want = append(want, "waiting "+strconv.Itoa(k.slot))
		}
		if diff := cmp.Diff(want, got[strconv.Itoa(i)]); diff != "" {
			l.t.Fatalf("key %d: %s", i, diff)
		}
		events += len(want)
	}
	l.t.Logf("%d lives, %d events", len(l.keys), events)
}

// A check enqueues in a session that has the name of its claim, which says nothing to a reader.
func TestARowThatACheckEnqueuesNamesTheJobOfTheCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const enqueue = "select prescient.enqueue($1, 'order', $2, check_at => '2100-01-02')"
	one := func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		_, err := tx.ExecContext(ctx, enqueue, "next", "of "+job.JobExec)
		return nil, err
	}
	w.registry.Register("row", jobs.InTx(one))
	w.registry.Register("batch", jobs.BatchInTx(
		func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			_, err := one(ctx, tx, batch[0])
			return make([]jobs.Result, len(batch)), err
		}))
	w.registry.Register("named", jobs.InTx(func(ctx context.Context, tx *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		if err := jobs.SetActor(ctx, tx, "alice"); err != nil {
			return nil, err
		}
		return one(ctx, tx, job)
	}))
	w.registry.Register("follow-up", jobs.BatchInTx(
		func(ctx context.Context, tx *sqlx.Tx, batch []jobs.FutureJob) ([]jobs.Result, error) {
			next := jobs.Request{JobExec: "next", EntityName: "order", EntityKey: "of follow-up", CheckAt: slot(1000)}
			results := make([]jobs.Result, len(batch))
			results[0].Enqueue = []jobs.Request{next}
			return results, jobs.SetActor(ctx, tx, "alice")
		}))
	w.registry.Periodic("hourly", "0 * * * *", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }))
	w.registry.Register("each", jobs.Each(one))
	for _, job := range []string{"row", "batch", "each", "named", "follow-up"} {
		w.enqueue(job, slot(4), 2)
	}
	for n := range 9 {
		w.clock.Set(slot(n))
		w.run(slot(n))
	}
	var told []string
	err := w.db.Select(&told, `select entity_key || ' by ' || coalesce(enqueued_actor, 'none') from prescient.future_job order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"hourly by check of hourly", "of batch by check of batch", "of each by check of each",
		"of follow-up by check of follow-up", "of named by alice", "of row by check of row",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

// The names of those who run a slot are in the ledger, and journals have their positions there.
func TestWhyNamesEachRunnerOfASlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	again := func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(time.Minute)), nil
	}
	w.registry.Register("one", jobs.Row(again))
	w.registry.Register("other", jobs.Row(again))
	w.enqueue("one", slot(1), 1)
	w.enqueue("other", slot(1), 1)
	named := func(name string) func(cfg *slots.Config) { return func(cfg *slots.Config) { cfg.Name = name } }
	if _, err := admin.New(w.client).Pause(t.Context(), w.db, "other"); err != nil {
		t.Fatal(err)
	}
	w.run(slot(1), named("first"))
	if _, err := admin.New(w.client).Resume(t.Context(), w.db, "other"); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(1).Add(20 * time.Minute))
	if _, err := w.runner(named("second")).CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "0"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range events {
		if e.What == "next" {
			got[e.JobExec] = fmt.Sprint(e.Runner, " ", e.Lateness.Round(time.Minute))
		}
	}
	if diff := cmp.Diff(map[string]string{"one": "first 0s", "other": "second 20m0s"}, got); diff != "" {
		t.Error(diff)
	}
}

// The ledger has the instants of the database's clock, and the test sets them to those of its own.
func TestWhyTellsACheckThatWasRunByHandFromOneThatCatchUpRanInItsSlot(t *testing.T) {
	t.Parallel()
	w := setup(t)
	again := jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return new(slot(40)), nil })
	w.registry.Register("asked", again)
	w.registry.Register("missed", again)
	w.enqueue("asked", slot(1), 1)
	w.enqueue("missed", slot(1), 1)
	w.clock.Set(slot(1).Add(time.Minute))
	if _, err := w.runner().RunJob(t.Context(), slot(1), "asked"); err != nil {
		t.Fatal(err)
	}
	told := func() map[string]string {
		t.Helper()
		events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "0"})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range events {
			if e.What == "next" {
				text := e.Sentence(w.clock.Now(), "prescient")
				got[e.JobExec] = text[strings.LastIndex(text, "(")+1:]
			}
		}
		return got
	}
	want := map[string]string{"asked": "run by hand): it asked for another check"}
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Error(diff)
	}
	w.clock.Set(slot(3))
	if _, err := w.runner().CatchUp(t.Context(), slots.CatchUp{}); err != nil {
		t.Fatal(err)
	}
	w.db.MustExec(`update prescient.slot_run set opened_at = $2, run_at = $3 where slot = $1 and run_at is not null`,
		slot(1), slot(1).Add(time.Minute), slot(3))
	want["missed"] = "the slot was missed, and caught up on at " + spoken.Instant(slot(3)) + "): it asked for another check"
	if diff := cmp.Diff(want, told()); diff != "" {
		t.Error(diff)
	}
}

// A slot that the ledger has forgotten may be opened again by hand: a run that finds no rows has checked nothing.
func TestWhyNamesNobodyWhoOpenedASlotThatWasForgotten(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("again", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return new(slot(40)), nil }))
	w.enqueue("again", slot(1), 1)
	w.run(slot(1), func(cfg *slots.Config) { cfg.Name = "first" })
	w.db.MustExec(`delete from prescient.slot_run`)
	w.run(slot(1), func(cfg *slots.Config) { cfg.Name = "second" })
	events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.What == "next" && e.Runner != "" {
			t.Errorf("it was checked by %s", e.Runner)
		}
	}
}

// SQL and Go read the short form of a check alike.
func TestTheDatabaseReadsWhatARunHasWrittenOfAnyCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	var lines []string
	for range 1000 {
		line, ok := journal.Check{
			Slot: time.Unix(int64(rnd.Uint32()), 0), Runner: 1 + rnd.IntN(255),
			Lateness: time.Duration(rnd.Int64N(1<<rnd.IntN(28))) * time.Millisecond, Duration: time.Duration(rnd.Int64N(1<<rnd.IntN(28))) * time.Microsecond,
		}.Short()
		if !ok {
			t.Fatal("a check has no short form")
		}
		lines = append(lines, line)
	}
	var got []pq.Int64Array
	err := pgsql.ReadTx(t.Context(), w.db, func(tx *sqlx.Tx) error {
		return tx.Select(&got, `select prescient.journal_check(line) from unnest($1::text[]) with ordinality as l (line, nth) order by nth`, pq.Array(lines))
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		c, _ := journal.Parse(line)
		want := pq.Int64Array{c.Slot.Unix(), int64(c.Runner), c.Lateness.Milliseconds(), c.Duration.Microseconds()}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Fatalf("%s: %s", line, diff)
		}
	}
}

func TestATraceKeepsTheNewestTwentyEntriesAndSurvivesIntoHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("again", jobs.Row(func(_ context.Context, job jobs.FutureJob) (*time.Time, error) {
		if job.CheckCount == 30 {
			return nil, nil
		}
		return new(job.Slot.Add(time.Minute)), nil
	}), jobs.MaxChecks(100))
	w.enqueue("again", slot(1), 2)
	for n := range 31 {
		w.run(slot(n + 1))
	}
	whats := func(job string) (list []string) {
		events, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "1", JobExec: job})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			list = append(list, fmt.Sprint(e.What, " ", int(e.Slot.Sub(slot(0))/(15*time.Minute))))
		}
		return list
	}
	want := []string{"enqueued 1"}
	for n := 11; n <= 30; n++ {
		want = append(want, fmt.Sprint("next ", n))
	}
	if diff := cmp.Diff(append(want, "done 31"), whats("again")); diff != "" {
		t.Error(diff)
	}
}

// What the ledger has of how the jobs do: counts, and percentiles that are at most a fifth too high.
func TestTheLedgerTellsHowTheJobsDo(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"in a slot that is done": 0, "in one that was left open, by rows of a job that nobody knows": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.enqueue("unknown", slot(1), others)
			w.tellsHowTheJobsDo()
		})
	}
}

func (w *world) tellsHowTheJobsDo() {
	t := w.t
	t.Helper()
	w.registry.Register("kept", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, nil }), jobs.SLA(time.Minute))
	w.registry.Register("late", jobs.Batch(func(_ context.Context, batch []jobs.FutureJob) ([]jobs.Result, error) {
		results := make([]jobs.Result, len(batch))
		results[0].Err = errors.New("boom")
		results[1].Next = new(slot(8))
		return results, nil
	}), jobs.SLA(time.Second))
	w.enqueue("kept", slot(1), 100)
	w.enqueue("late", slot(1), 100)
	w.clock.Set(slot(1).Add(40 * time.Second))
	if _, err := w.runner().Run(t.Context(), slot(1)); err != nil {
		t.Fatal(err)
	}
	list, err := w.ledger.Jobs(t.Context(), slot(0))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for i := range list {
		j := &list[i]
		if time.Duration(j.LatenessP50) < 40*time.Second || time.Duration(j.LatenessP99) > 48*time.Second || j.ServedAt == nil {
			t.Errorf("%s: %+v", j.JobExec, *j)
		}
		if j.LastAt == nil {
			t.Errorf("%s: nobody knows when its newest slot was run", j.JobExec)
		}
		j.LatenessP50, j.LatenessP99, j.ServedAt, j.LastAt = 0, 0, nil, nil
	}
	list[1].Failed, list[1].LastFailed = list[1].Failed/2, list[1].LastFailed/2 // two pages, the first of each
	want := []ledger.JobStatus{
		{JobExec: "kept", SLA: duration.Text(time.Minute), Checked: 100, LastSlot: new(slot(1)), LastChecked: 100},
		{JobExec: "late", SLA: duration.Text(time.Second), Checked: 100, Failed: 1, Late: 100, LastSlot: new(slot(1)), LastChecked: 100, LastFailed: 1, LastLate: 100, Error: "boom"},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	// Rows that ended without a check are counted as finished, and in no bucket of lateness.
	w.db.MustExec(`update prescient.slot_job set finished = finished + 50 where slot = $1`, slot(1))
	late, err := w.ledger.LateSlots(t.Context(), slot(0), 10)
	if diff := cmp.Diff([]ledger.LateSlot{{Slot: slot(1), JobExec: "late", Checked: 100, Late: 100}}, late); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// What an application has made under the name of an operator, for types that the server has no such operator of, is not called with a
// run's rights.
func TestARunMultipliesByTheServersOperators(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.db.MustExec(`create function public.evil(bigint, interval) returns interval language plpgsql as
		$$ begin raise exception 'called'; end $$`)
	w.db.MustExec(`create operator public.* (leftarg = bigint, rightarg = interval, function = public.evil)`)
	w.registry.Register("once", jobs.Row(done), jobs.SLA(time.Second))
	w.registry.Register("fail", jobs.Row(func(context.Context, jobs.FutureJob) (*time.Time, error) { return nil, errors.New("boom") }), jobs.Retry(1))
	w.registry.Register("tx", jobs.InTx(func(_ context.Context, _ *sqlx.Tx, job jobs.FutureJob) (*time.Time, error) {
		return new(job.Slot.Add(time.Minute)), nil
	}), jobs.MaxChecks(2))
	for _, n := range []int{1, 200} {
		for _, job := range []string{"once", "fail", "tx"} {
			w.enqueue(job, slot(1), n)
		}
	}
	for n := range 2 {
		w.run(slot(n + 1))
	}
	if got := w.outcomes(); got[jobs.OutcomeDone] != 200 || got[jobs.OutcomeFailed] != 200 || got[jobs.OutcomeMaxChecks] != 200 {
		t.Error(got)
	}
	if _, err := admin.New(w.client).Timeline(t.Context(), w.db, jobs.Key{EntityName: "order", EntityKey: "1"}); err != nil {
		t.Error(err)
	}
}
