-- Returns how the jobs did in the slots from $1 to $2, by the ledger and by history. It also
-- returns the jobs with rows in slots up to $3 that no run has registered in the last 7 days, nor
-- since their checks were enqueued, a width ago. Each run of a command registers the rules, and a run of a server of
-- one's own perhaps does not. What a rule did that was removed does not count.
-- In the percentiles a bucket counts as its upper bound. A slot with a runner counts once the
-- runner has finished; a slot that was left open counts. The newest slot is the one that was run
-- last, by catch-up perhaps.
-- A row that failed for good and was acknowledged has not given up any more. last_settled counts the rows that failed in
-- the newest slot and need no operator any more: cancelled, replaced or acknowledged ones.
-- Called by slots/ledger.Ledger.Jobs.
with left_open as materialized (
    select t.*
    from prescient.slot_run r
    join prescient.slot_progress t on t.slot = r.slot and t.job <> 0
    where r.slot between $1 and $2
        and r.state = 'open'
        and not exists (select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp())
), checks as materialized ( -- rows that were deferred, or ended unchecked, are none
    select slot, job, bucket, checks
    from prescient.slot_lateness
    where slot between $1 and $2
    union all
    select slot, job, bucket, finished + rescheduled + failed
    from left_open
    where bucket >= 0
), done as materialized (
    select
        s.slot, s.job, l.checked, s.failed, s.late, s.error, s.last_at,
        row_number() over (partition by s.job order by s.last_at desc nulls last, s.slot desc) as nth
    from (
        select slot, job, sum(failed) as failed, sum(late) as late, min(error) as error, max(last_at) as last_at
        from (
            select slot, job, failed, late, error, last_at
            from prescient.slot_job
            where slot between $1 and $2
            union all
            select slot, job, failed, late, error, recorded_at
            from left_open
        ) as parts
        group by slot, job
    ) as s
    left join prescient.job j on j.job = s.job
    join (select slot, job, sum(checks)::bigint as checked from checks group by slot, job) as l on l.slot = s.slot and l.job = s.job
    where j.job is null or j.registered_at is not null or exists (select from prescient.rule r where r.name = j.name)
), total as (
    select
        job, sum(checked)::bigint as checked, sum(failed)::bigint as failed, sum(late)::bigint as late,
        max(slot) filter (where nth = 1) as slot,
        max(last_at) filter (where nth = 1) as last_at,
        max(checked) filter (where nth = 1) as last_checked,
        max(failed) filter (where nth = 1)::bigint as last_failed,
        max(late) filter (where nth = 1)::bigint as last_late,
        (array_agg(error order by nth) filter (where error is not null))[1] as error
    from done
    group by job
), lateness as (
    select
        job,
        min(bucket) filter (where below >= 0.50 * n) as p50,
        min(bucket) filter (where below >= 0.99 * n) as p99
    from (
        select
            l.job, l.bucket,
            sum(sum(l.checks)) over (partition by l.job order by l.bucket) as below,
            sum(sum(l.checks)) over (partition by l.job) as n
        from checks l
        group by l.job, l.bucket
    ) as b
    group by job
), gave_up as (
    select
        h.job_exec, count(*) filter (where h.outcome = 'failed' and h.ack is null) as n, count(*) filter (where h.outcome = 'max_checks') as max_checks,
        count(*) filter (where h.outcome = 'failed' and h.ack is null and h.slot = l.slot) as last_n,
        count(*) filter (where h.outcome in ('cancelled', 'replaced') or h.ack is not null and h.slot = l.slot) as last_settled,
        (array_agg(h.last_error order by h.finished_at desc) filter (where h.outcome = 'failed' and h.ack is null and h.last_error is not null))[1] as error
    from prescient.future_job_history h
    left join (select n.name, t.slot from total t join prescient.job n on n.job = t.job) as l on l.name = h.job_exec
    left join prescient.job j on j.name = h.job_exec
    where h.finished_at >= $1
        and (
            h.outcome in ('failed', 'max_checks')
            -- A row that failed in the newest slot has the failure in its journal.
            or h.outcome in ('cancelled', 'replaced')
                and h.error_count > 0
                and strpos(h.journal, '["retry",' || extract(epoch from l.slot)::bigint || ',') > 0
        )
        and (j.job is null or j.registered_at is not null or exists (select from prescient.rule r where r.name = j.name))
    group by h.job_exec
), waiting as (
    select number, min(due.slot) as slot
    from (
        with recursive due (slot) as (
            (select next_check_at from prescient.future_job where next_check_at <= $3 order by next_check_at limit 1)
            union all
            select (
                select f.next_check_at
                from prescient.future_job f
                where f.next_check_at > due.slot and f.next_check_at <= $3
                order by f.next_check_at
                limit 1
            )
            from due
            where due.slot is not null
        )
        select slot from due where slot is not null limit 1500
    ) as due
    cross join lateral prescient.jobs_in_slot(due.slot) as number
    group by number
), unknown as (
    select w.number as job
    from waiting w
    left join prescient.job j on j.job = w.number
    where (j.registered_at is null or j.registered_at < clock_timestamp() - interval '7 days')
        and j.paused_at is null
        and exists (
            select
            from (
                select f.enqueued_at
                from prescient.future_job f
                where f.next_check_at = w.slot and f.job = w.number
                order by f.id
                limit 1
            ) as first
            where first.enqueued_at < now() - (select width from prescient.setting)
        )
)
select
    coalesce(j.name, g.job_exec, '#' || coalesce(t.job, u.job)) as name,
    (extract(epoch from j.sla) * 1000000)::bigint as sla,
    j.registered_at,
    u.job is not null as unknown,
    coalesce(t.checked, 0) as checked,
    coalesce(t.failed, 0) as failed,
    coalesce(t.late, 0) as late,
    t.slot,
    coalesce(t.last_checked, 0) as last_checked,
    coalesce(t.last_failed, 0) as last_failed,
    coalesce(t.last_late, 0) as last_late,
    t.last_at,
    coalesce(g.n, 0) as gave_up,
    coalesce(g.last_n, 0) as last_gave_up,
    coalesce(g.last_settled, 0) as last_settled,
    coalesce(g.max_checks, 0) as max_checks,
    coalesce(case when t.last_failed > 0 then t.error end, g.error, t.error, '') as error,
    coalesce(g.error, '') as gave_up_error,
    (100000 * power(2::double precision, l.p50 / 4.0))::bigint as p50,
    (100000 * power(2::double precision, l.p99 / 4.0))::bigint as p99
from total t
full join unknown u on u.job = t.job
left join prescient.job j on j.job = coalesce(t.job, u.job)
full join gave_up g on g.job_exec = j.name
left join lateness l on l.job = t.job
order by name
