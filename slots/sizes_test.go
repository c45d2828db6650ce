package slots_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prescient-go/prescient/internal/pg"
	"github.com/prescient-go/prescient/internal/seq"
	"github.com/prescient-go/prescient/jobs"
	"github.com/prescient-go/prescient/slots"
	"github.com/prescient-go/prescient/slots/health"
	"github.com/prescient-go/prescient/slots/ledger"
	"github.com/prescient-go/prescient/sql/pgtest"
)

// Not parallel, since it measures the memory of the process.
func TestTheStatusHoldsFewOfManyMissedSlots(t *testing.T) {
	w := setup(t)
	if err := w.ledger.Begin(t.Context(), noon.AddDate(-1, 0, 0)); err != nil {
		t.Fatal(err)
	}
	w.clock.Set(slot(-2))
	w.enqueue("job", slot(-1), 3)
	w.clock.Set(slot(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, err := w.ledger.Status(t.Context(), time.Time{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	const all = 365*96 + 1
	if n := int64(len(status.Trouble)); n != pg.MostMissed+1 || n+status.MoreMissed != all {
		t.Errorf("%d slots and %d more, want %d of %d", n, status.MoreMissed, pg.MostMissed+1, all)
	}
	if last := status.Trouble[len(status.Trouble)-1]; !last.Slot.Equal(slot(-1)) || last.Waiting().N != 3 || rowsInTrouble(status) != 3 {
		t.Errorf("the slot with rows is %+v", last)
	}
	if mib := float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20); mib > 4 {
		t.Errorf("the status took %.1f MiB", mib)
	}
}

func TestTheLogNamesTheFirstOfManyUnknownJobs(t *testing.T) {
	t.Parallel()
	result := slots.Result{Unknown: slices.Repeat([]string{"order.42"}, 20_000)}
	if text := result.LogValue().String(); len(text) > 2000 {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

// An application may enqueue rows of any number of names. The run lists some of them, and all of its own jobs.
func TestARunListsAThousandUnknownJobsAndChecksThoseThatItKnows(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "an insert from a select calls no function that writes")
	const unknown, own = 1100, 20
	w := setup(t)
	w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job('flood.' || n), 'order', '1', $1::timestamptz, $1::timestamptz from generate_series(1, $2) as n`, slot(1), unknown)
	for i := range own {
		name := fmt.Sprint("own.", i)
		w.registry.Register(name, jobs.Row(done))
		w.enqueue(name, slot(1), 1)
	}
	w.runner() // which registers its jobs
	w.clock.Set(slot(2))
	missed := w.status().Trouble[0]
	listed := len(slices.DeleteFunc(slices.Clone(missed.Jobs), func(j ledger.JobCount) bool { return !strings.HasPrefix(j.JobExec, "own.") }))
	if n := missed.Waiting(); len(missed.Jobs) != 1000 || listed != own || n != (ledger.Count{N: 1000, AtLeast: true}) {
		t.Errorf("the status lists %d jobs of the slot, %d of the run, and %s rows", len(missed.Jobs), listed, n)
	}
	result := w.run(slot(1))
	if result.State != slots.StateOpen || result.Finished != own || len(result.Unknown) != 1000 {
		t.Errorf("%d rows of %d are finished, and %d jobs are unknown: %s", result.Finished, own, len(result.Unknown), result.State)
	}
}

// A catch-up may have a thousand slots, each with a thousand other names.
func TestTheResultsOfACatchUpListAThousandUnknownJobsTogether(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCitus(t, "an insert from a select calls no function that writes")
	w := setup(t)
	w.db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job('flood.' || s || '.' || n), 'order', '1', $1::timestamptz + s * interval '15 minutes', $1::timestamptz + s * interval '15 minutes'
		from generate_series(0, 2) as s, generate_series(1, 400) as n`, slot(1))
	w.clock.Set(slot(5))
	var listed, told int
	caught := w.catchUp(slots.CatchUp{After: func(r slots.Result) { told += len(r.Unknown) }})
	for _, r := range caught.Results {
		if listed += len(r.Unknown); r.State != slots.StateOpen {
			t.Errorf("slot %s is %s", r.Slot, r.State)
		}
	}
	if len(caught.Results) != 3 || listed != 1000 || told != 1200 {
		t.Errorf("%d results list %d unknown jobs, and %d were told", len(caught.Results), listed, told)
	}
}

// A thousand slots may wait for another run at the end of a catch-up. The limit ends it before.
func TestASlotThatACatchUpRunsOnceMoreKeepsTenUnknownJobs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.registry.Register("job", jobs.Row(done))
	w.enqueue("job", slot(1), 1)
	w.enqueue("job", slot(2), 2)
	for n := range 12 {
		w.enqueue(fmt.Sprint("flood.", n), slot(1), 1)
	}
	w.clock.Set(slot(5))
	psql := w.db.MustBegin()
	defer func() { _ = psql.Rollback() }()
	psql.MustExec(`select prescient.cancel('job', 'order', '0')`) // in slot 1
	caught, err := w.runner().CatchUp(t.Context(), slots.CatchUp{Limit: 1})
	if err != nil && !errors.Is(err, slots.ErrLocked) || len(caught.Results) != 2 {
		t.Fatalf("%+v, %v", caught, err)
	}
	if n := len(caught.Results[0].Unknown); n != 10 || caught.Results[0].State != slots.StateOpen {
		t.Errorf("the result of slot 1, which is %s, lists %d unknown jobs", caught.Results[0].State, n)
	}
}

// Sixty days of slots of a second are five million, too many to look at each.
func TestTheStatusOfSixtyDaysOfSecondsIsBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.MustExec(`select prescient.set_width('1 s')`)
	db.MustExec(`update prescient.setting set since = '2026-01-01 00:00:00Z'`)
	db.MustExec(`insert into prescient.slot_run (slot, state, kind, planned)
		select timestamptz '2026-02-01 00:00:00Z' + n * interval '1 s', 'open', 'run', 1 from generate_series(1, 1500) as n`)
	db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select (select prescient.ensure_job('remind')), 'order', n::text, at, at
		from generate_series(1, 1600) as n
		cross join lateral (select timestamptz '2026-02-02 00:00:00Z' + n * interval '1 s') as slot (at)`)
	now := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	l, err := ledger.New(t.Context(), db, "", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	status, err := l.Status(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	listed := map[slots.State]int64{}
	for _, trouble := range status.Trouble {
		listed[trouble.State]++
	}
	const missed = 60*86_400 - 1500
	if listed[slots.StateOpen] != pg.MostMissed || listed[slots.StateOpen]+status.MoreOpen != 1500 ||
		listed[slots.StateMissed] != pg.MostMissed || listed[slots.StateMissed]+status.MoreMissed != missed {
		t.Errorf("listed are %v, and %d missed and %d open more; want 1,500 open and %d missed", listed, status.MoreMissed, status.MoreOpen, missed)
	}
	state, err := health.Read(t.Context(), l, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if n := state.OverdueCount(); n.N >= 1600 || !n.AtLeast {
		t.Errorf("%+v rows are overdue, want a count that says that it has stopped before 1,600", n)
	}
}

// A job was paused for two days, and each slot of a second has kept a row of it. Behind them waits a straggler.
func TestAStragglerIsFoundBehindManySlotsOfAPausedJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes many slots")
	}
	t.Parallel()
	pgtest.NotOnCitus(t, "an insert from a select calls no function that writes")
	db := pgtest.New(t)
	db.MustExec(`select prescient.set_width('1 s')`)
	db.MustExec(`update prescient.setting set since = '2026-01-01 00:00:01Z'`)
	const paused = 150_000
	db.MustExec(`insert into prescient.slot_run (slot, state, kind, planned, finished_at)
		select timestamptz '2026-01-01 00:00:00Z' + n * interval '1 s', 'done', 'run', 1, now() from generate_series(1, $1) as n`, paused+2)
	db.MustExec(`insert into prescient.future_job (job, entity_name, entity_key, first_check_at, next_check_at)
		select prescient.ensure_job(case when n > $1 then 'remind' else 'paused' end), 'order', n::text, at, at
		from generate_series(1, $1 + 1) as n
		cross join lateral (select timestamptz '2026-01-01 00:00:00Z' + n * interval '1 s') as slot (at)`, paused)
	db.MustExec(`update prescient.job set paused_at = now(), paused_by = 'test' where name = 'paused'`)
	straggler := time.Date(2026, time.January, 1, 0, 0, paused+1, 0, time.UTC)
	l, err := ledger.New(t.Context(), db, "", func() time.Time { return straggler.Add(time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	status, err := l.Status(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Trouble) != 1 || !status.Trouble[0].Slot.Equal(straggler) || status.Trouble[0].Waiting().N != 1 {
		t.Errorf("in trouble are %+v, want the slot %s with one row", status.Trouble, straggler)
	}
}

// A list reads 1,000 slots at once.
func TestAListOfSlotsHasThoseOfAllPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const many = 2100
	w.db.MustExec(`insert into prescient.slot_run (slot, state, kind, planned, finished_at)
		select $1::timestamptz + n * interval '15 minutes', 'done', 'run', n, $1 from generate_series(1, $2) n`, noon, many)
	all, err := seq.Collect(w.ledger.List(t.Context(), slot(2), time.Time{}, 0))
	if err != nil || len(all) != many-1 || !all[0].Slot.Equal(slot(many)) || !all[len(all)-1].Slot.Equal(slot(2)) {
		t.Errorf("%d slots, %v", len(all), err)
	}
	for i, run := range all {
		if run.Planned != int64(many-i) {
			t.Fatalf("slot %d is %+v", i, run)
		}
	}
	if some, err := seq.Collect(w.ledger.List(t.Context(), time.Time{}, time.Time{}, 1500)); err != nil || len(some) != 1500 {
		t.Errorf("%d slots of 1500, %v", len(some), err)
	}
}
