package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/lib/pq"
)

// usualRecovery bounds how long a row stays as it is that was due when the faults ended: until a lease ends, until the
// next heartbeat, and 5 s to do the work.
const usualRecovery = lease + lease/3 + 5*time.Second

// dueRow is a row that was due when the faults ended. Rows of jobs with limits wait for these.
type dueRow struct {
	ID   int64
	Slot time.Time `db:"next_check_at"`
}

// recovers heals everything but the destinations, and measures how long the rows wait that are due then. No
// destination answers meanwhile, because no check may wait for one.
func (t *torture) recovers(ctx context.Context) {
	t.healProxies()
	t.trouble(hangs)
	defer t.trouble("")
	if t.clock != nil { // a lease that was given while the clock was ahead lasts until that time
		return
	}
	t.cluster.changing.Lock()   // what brings the server down has ended
	t.cluster.changing.Unlock() //nolint:staticcheck // only waits
	began := time.Now()
	var due []dueRow
	err := t.admin.SelectContext(ctx, &due, `
		select f.id, f.next_check_at
		from prescient.future_job f
		join prescient.job j using (job)
		where f.next_check_at <= clock_timestamp()
			and j.name <> all ($1)`, pq.StringArray{limitedJob, pacedJob, "schedule"})
	if err != nil {
		t.log.WarnContext(ctx, "no recovery is measured", "error", err)
		return
	}
	left, err := t.remaining(ctx, due, began)
	if err != nil {
		t.log.WarnContext(ctx, "no recovery is measured", "error", err)
		return
	}
	took := time.Since(began)
	t.log.InfoContext(ctx, "recovered", "rows", len(due), "after", took.Round(time.Millisecond).String())
	t.count("recoveries", 1)
	t.mu.Lock()
	t.counts["longest recovery (ms)"] = max(t.counts["longest recovery (ms)"], int(took.Milliseconds()))
	t.mu.Unlock()
	checkRecovery(left, len(due), took, t.broken)
	if len(left) > 0 {
		t.explain(ctx, left[0])
	}
}

// explain logs what keeps a row as it is.
func (t *torture) explain(ctx context.Context, row dueRow) {
	var facts []string
	err := t.admin.SelectContext(ctx, &facts, `
		select 'at ' || clock_timestamp()
		union all select 'row: ' || f || ' of ' || j.name
		from prescient.future_job f join prescient.job j using (job) where f.id = $1 and f.next_check_at = $2
		union all select 'slot: ' || r from prescient.slot_run r where state = 'open'
		union all select 'job of the slot: ' || r from prescient.slot_job r where slot = $2
		union all select 'claim: ' || c from prescient.slot_claim c
		union all select 'waiting: ' || a.pid || ' for ' || pg_blocking_pids(a.pid)::text || ': ' || left(a.query, 60)
		from pg_stat_activity a where cardinality(pg_blocking_pids(a.pid)) > 0
		union all
		select 'open: ' || a.pid || ' ' || a.application_name || ' since ' || a.xact_start || ': ' || left(a.query, 60)
		from pg_stat_activity a where a.xact_start < clock_timestamp() - interval '1 second'`, row.ID, row.Slot)
	t.log.WarnContext(ctx, "a row is left", "error", err)
	for _, fact := range facts {
		fmt.Fprintln(os.Stderr, fact)
	}
}

// bound is how long a recovery may take. Work that the machine has for others takes its share of the time.
func (t *torture) bound() time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	var load float64
	if err != nil {
		return t.recovery
	}
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return t.recovery
	}
	return time.Duration(float64(t.recovery) * max(1, load/float64(runtime.NumCPU())))
}

// remaining returns what is still due and as it was, at the latest when the time for that is over.
func (t *torture) remaining(ctx context.Context, due []dueRow, began time.Time) (left []dueRow, err error) {
	ids, slots := make(pq.Int64Array, len(due)), make(pq.StringArray, len(due))
	for i, d := range due {
		ids[i], slots[i] = d.ID, d.Slot.Format(time.RFC3339Nano)
	}
	for most := t.bound(); ; {
		left = nil
		err := t.admin.SelectContext(ctx, &left, `
			select f.id, f.next_check_at
			from prescient.future_job f
			join unnest($1::bigint[], $2::timestamptz[]) as d (id, slot)
				on f.id = d.id and f.next_check_at = d.slot`, ids, slots)
		if err != nil || len(left) == 0 || time.Since(began) > most {
			return left, err
		}
		wait(ctx, 50*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// checkRecovery says which rows were left by the faults.
func checkRecovery(left []dueRow, of int, took time.Duration, broken func(string, ...any)) {
	if len(left) > 0 {
		broken("%s after the faults, %d of %d rows that were due are as they were, the first is %s",
			took.Round(time.Millisecond), len(left), of, fmt.Sprintf("%d of %s", left[0].ID, left[0].Slot.UTC()))
	}
}
