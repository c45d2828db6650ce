-- The slots from $1 to $2 that are missed (no ledger row; $2 itself may still be opened), left open, or done with rows
-- in them that are not of paused jobs, each found by equality on the slot. waiting: those rows, counted up to 10,000 a
-- job. live: runners that are at it. Of a year of slots few are looked into. One probe looks for rows before the
-- ledger: of the slots there, the first with rows is found. Of the missed slots without rows the answer has the first
-- $3; more says how many others there are.
with suspect as materialized (
    select s.slot, r.state, probe.has_rows
    from (
        select generate_series(prescient.slot_ceil(greatest($1, since), width), $2, width) as slot
        from (select since, width from prescient.setting limit 1) as setting
    ) as s
    left join prescient.slot_run r on r.slot = s.slot
    left join lateral (
        select true as has_rows
        from prescient.future_job f
        where f.next_check_at = s.slot
        limit 1
    ) as probe on true
    where (r.slot is null and s.slot < $2) or r.state = 'open' or (r.state = 'done' and probe.has_rows)
    union all
    select early.slot, coalesce(r.state, 'early'), true
    from (
        select min(f.next_check_at) as slot
        from prescient.future_job f
        where f.next_check_at >= $1
            and f.next_check_at < least((select prescient.slot_ceil(greatest($1, since), width) from prescient.setting limit 1), $2)
    ) as early
    left join prescient.slot_run r on r.slot = early.slot
    where early.slot is not null
), empty as materialized (
    select slot
    from suspect
    where state is null and has_rows is null
), listed as (
    select slot, state, has_rows
    from suspect
    where state is not null or has_rows
    union all
    (select slot, null, null from empty limit $3)
)
select
    s.slot,
    coalesce(nullif(s.state, 'early'), 'missed') as state,
    coalesce(due.waiting, 0) as waiting,
    coalesce(due.jobs, '{}') as jobs,
    coalesce(due.counts, '{}') as counts,
    (
        select count(distinct c.runner)
        from prescient.slot_claim c
        where c.slot = s.slot and c.allocated_until >= clock_timestamp()
    ) as live,
    greatest(0, (select count(*) from empty) - $3::bigint) as more
from listed s
left join lateral (
    select sum(few.n)::bigint as waiting, array_agg(few.name order by few.name) as jobs, array_agg(few.n order by few.name) as counts
    from (
        select coalesce(j.name, '#' || number) as name, n.n
        from prescient.jobs_in_slot(s.slot) as number
        left join prescient.job j on j.job = number
        cross join lateral (
            select count(*) as n
            from (select from prescient.future_job f where f.next_check_at = s.slot and f.job = number limit 10000) as page
        ) as n
        where j.paused_at is null
    ) as few
    where s.has_rows
) as due on true
where coalesce(s.state, 'missed') not in ('done', 'early') or due.waiting > 0
order by s.slot
