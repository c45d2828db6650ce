-- Returns the slots from $1 to $2 that are missed (no row in the ledger; $2 itself may still be
-- opened), left open, or done but with rows of jobs that are not paused. counts: those rows by job. Counting
-- stops at 100,000 rows in all, or 1,000 of each job in each slot: then stopped is true, and there
-- may be more. A slot has at most 1,000 jobs, or 100 if many slots are in trouble, those first that a run has
-- registered last: stopped is true for the last of them, and there are more. An application may enqueue rows
-- of any number of names. live: the runners at the slot. waited_for: the session whose lock its rows have waited for.
-- It finds slots with rows by jumping from slot to slot through the slot index, until it has $3 of
-- them, open slots by their index, and missed slots by counting the ledger. It probes no slot
-- without rows, so sixty days of slots of a second take seconds. A slot before the ledger is missed only if it has
-- rows of jobs that are not paused.
-- The answer has the first $3 slots that are open or have rows, and the first $3 that are missed
-- without rows. more says how many other slots are missed, and more_open how many are open. cut says that there are more
-- slots with rows, which are not counted.
-- Called by slots/ledger.Ledger.Status.
with recursive grid as materialized (
    select prescient.slot_ceil(greatest($1, since), width) as first, width
    from prescient.setting
    limit 1
), past (slot) as (
    (
        select f.next_check_at
        from prescient.future_job f
        where f.next_check_at >= $1 and f.next_check_at <= $2
        order by f.next_check_at
        limit 1
    )
    union all
    select (
        select f.next_check_at
        from prescient.future_job f
        where f.next_check_at > past.slot and f.next_check_at <= $2
        order by f.next_check_at
        limit 1
    )
    from past
    where past.slot is not null
), suspect as (
    (
        select past.slot, r.state, true as has_rows
        from past
        left join lateral (select r.state from prescient.slot_run r where r.slot = past.slot) as r on true
        where past.slot is not null
            and case
                when r.state is null and past.slot >= $2 then false
                when r.state is null and past.slot >= (select first from grid) then true
                when r.state is null or r.state = 'done' then exists (
                    select
                    from prescient.jobs_in_slot(past.slot) as number
                    left join prescient.job j on j.job = number
                    where j.paused_at is null
                )
                else true
            end
        limit $3
    )
    union all
    (
        select r.slot, r.state, null
        from prescient.slot_run r
        where r.state = 'open' and r.slot >= (select first from grid) and r.slot <= $2
        order by r.slot
        limit $3
    )
), troubled as materialized (
    select slot, state, bool_or(has_rows) as has_rows
    from suspect
    group by slot, state
    order by slot
    limit $3
), counted as materialized (
    select
        greatest(0, (extract(epoch from $2::timestamptz - grid.first) / extract(epoch from width))::bigint) - (
            select count(*)
            from prescient.slot_run r
            where r.slot >= grid.first and r.slot < $2 and prescient.slot_floor(r.slot, grid.width) = r.slot
        ) as missed,
        (select count(*) from prescient.slot_run r where r.state = 'open' and r.slot >= grid.first and r.slot <= $2) as open
    from grid
), gap as (
    select grid.first as slot, least((select min(r.slot) from prescient.slot_run r where r.slot >= grid.first), $2) as until
    from grid
    union all
    select r.slot + grid.width, r.until
    from grid
    cross join lateral (
        select r.slot, lead(r.slot, 1, $2) over (order by r.slot) as until
        from prescient.slot_run r
        where r.slot >= grid.first and r.slot < $2 and prescient.slot_floor(r.slot, grid.width) = r.slot
    ) as r
    where r.slot + grid.width < r.until
), empty as materialized (
    select s.slot
    from gap
    cross join grid
    cross join lateral generate_series(
        gap.slot, least(gap.until - interval '1 microsecond', gap.slot + 100000 * grid.width), grid.width
    ) as s (slot)
    left join lateral (
        select true as has_rows
        from prescient.future_job f
        where f.next_check_at = s.slot
        limit 1
    ) as probe on true
    where probe.has_rows is null
        and (select missed from counted) > 0
    limit $3
), listed as materialized (
    select slot, state, has_rows from troubled
    union all
    select slot, null, null from empty
), most_jobs as materialized (
    select greatest(100, least(1000, 100000 / greatest(1, count(*)))) as n from listed where has_rows
), job as materialized (
    select s.slot, j.number, j.name, j.nth = (select n from most_jobs) and j.total > j.nth as cut
    from listed s
    cross join lateral (
        select
            number, coalesce(j.name, '#' || number) as name, count(*) over () as total,
            row_number() over (order by j.registered_at desc nulls last, number) as nth
        from prescient.jobs_in_slot(s.slot) as number
        left join prescient.job j on j.job = number
        where j.paused_at is null
        order by nth
        limit (select n from most_jobs)
    ) as j
    where s.has_rows
), budget as materialized (
    select greatest(1000, 100000 / greatest(1, count(*))) as most from job
), due as materialized (
    select
        job.slot, array_agg(job.name order by job.name) as jobs, array_agg(least(n.n, (select most from budget)) order by job.name) as counts,
        array_agg(job.cut or n.n > (select most from budget) order by job.name) as stopped
    from job
    cross join lateral (
        select count(*) as n
        from (
            select from prescient.future_job f where f.next_check_at = job.slot and f.job = job.number limit (select most + 1 from budget)
        ) as page
    ) as n
    group by job.slot
)
select
    s.slot,
    coalesce(s.state, 'missed') as state,
    coalesce(due.jobs, '{}') as jobs,
    coalesce(due.counts, '{}') as counts,
    coalesce(due.stopped, '{}') as stopped,
    (
        select count(distinct c.runner)
        from prescient.slot_claim c
        where c.slot = s.slot and c.allocated_until >= clock_timestamp()
    ) as live,
    coalesce((select r.waited_for from prescient.slot_run r where r.slot = s.slot), '') as waited_for,
    greatest(0, counted.missed - (select count(*) from empty) - (
        select count(*) from troubled where state is null and slot >= (select first from grid)
    )) as more,
    greatest(0, counted.open - (
        select count(*) from troubled where state = 'open' and slot >= (select first from grid)
    )) as more_open,
    (select count(*) from suspect where has_rows) >= $3
        or exists (select from suspect u where u.has_rows and u.slot > (select max(slot) from troubled)) as cut
from listed s
cross join counted
left join due on due.slot = s.slot
where coalesce(s.state, 'missed') <> 'done' or due.slot is not null
order by s.slot
