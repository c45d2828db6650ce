-- Returns the slots from $1 to $2 that are missed (no row in the ledger; $2 itself is due), open,
-- or done but with rows of jobs that are not paused, oldest first. These are the slots of
-- ledger_trouble, without counts. One probe looks for rows before them, and finds the first slot
-- with rows.
-- Called by slots/metrics.snapshot.readSlots.
select
    s.slot,
    case
        when r.slot is null and s.slot = $2 then 'due'
        when r.slot is null then 'missed'
        when r.state = 'done' then 'stragglers'
        when exists (
            select from prescient.slot_claim c
            where c.slot = s.slot and c.allocated_until >= clock_timestamp()
        ) then 'running'
        else 'left_open'
    end as state
from (
    select generate_series(prescient.slot_ceil(greatest($1, since), width), $2, width) as slot, false as early
    from (select since, width from prescient.setting limit 1) as setting
    union all
    select before.slot, true
    from (
        select min(f.next_check_at) as slot
        from prescient.future_job f
        where f.next_check_at < least((select prescient.slot_ceil(greatest($1, since), width) from prescient.setting limit 1), $2)
    ) as before
    where before.slot is not null
) as s
left join prescient.slot_run r on r.slot = s.slot
left join lateral (
    select true as has_rows
    from prescient.future_job f
    where f.next_check_at = s.slot
    limit 1
) as probe on r.state = 'done' or s.early
where (r.slot is null and not s.early)
    or r.state = 'open'
    or (
        probe.has_rows
        and exists (
            select
            from prescient.jobs_in_slot(s.slot) as number
            left join prescient.job j on j.job = number
            where j.paused_at is null
        )
    )
order by s.slot
