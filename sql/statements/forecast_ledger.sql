-- Returns the results of the slots in the ranges from $1 up to but not including $2, oldest first,
-- with the rows and the run time of each job.
-- took: from the opening of a slot to its last outcome, in microseconds. delay: from the slot to
-- its opening. The time in which a slot was open without a runner does not count.
-- Called by internal/forecast.reader.readLedger.
select
    r.slot, r.kind,
    (extract(epoch from r.worked + greatest(
        interval '0', coalesce(done.last_at, r.finished_at) - coalesce(r.resumed_at, r.opened_at)
    )) * 1000000)::bigint as took,
    (extract(epoch from r.opened_at - r.slot) * 1000000)::bigint as delay,
    r.runners, r.workers,
    coalesce(done.names, '{}') as names, coalesce(done.rows, '{}') as rows, coalesce(done.spent, '{}') as spent
from unnest($1::timestamptz[], $2::timestamptz[]) as part (from_at, to_at)
join prescient.slot_run r on r.slot >= part.from_at and r.slot < part.to_at
left join lateral (
    select
        array_agg(coalesce(j.name, '#' || s.job)) as names,
        max(coalesce(s.last_at, case when s.finished + s.rescheduled + s.failed > 0 then r.finished_at else r.opened_at end)) as last_at,
        array_agg(s.finished + s.rescheduled + s.failed) as rows,
        array_agg((extract(epoch from s.spent) * 1000000)::bigint) as spent
    from prescient.slot_job s
    left join prescient.job j on j.job = s.job
    where s.slot = r.slot
) as done on true
where r.state = 'done'
order by r.slot
