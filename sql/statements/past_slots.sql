-- The slots from $1 up to but not including $2 that have rows, other than those of paused jobs, found by jumping from slot to slot through the
-- slot index. Thorough, and for catch-up alone: it walks over dead entries where vacuum is held back.
with recursive past (slot) as (
    (
        select next_check_at
        from prescient.future_job
        where next_check_at >= $1 and next_check_at < $2
        order by next_check_at
        limit 1
    )
    union all
    select (
        select f.next_check_at
        from prescient.future_job f
        where f.next_check_at > past.slot and f.next_check_at < $2
        order by f.next_check_at
        limit 1
    )
    from past
    where past.slot is not null
)
select past.slot, coalesce(r.state, 'missed') as state
from past
left join prescient.slot_run r on r.slot = past.slot
cross join lateral (
    select true as waits
    from prescient.future_job f
    where f.next_check_at = past.slot
        and f.job_exec <> all (array(select job_exec from prescient.paused_job))
    limit 1
) as probe
where past.slot is not null
order by past.slot
