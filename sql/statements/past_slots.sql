-- Returns the oldest $4 slots from $1 up to but not including $2 that are open or have rows, of paused
-- jobs only if the slot was never opened. It leaves out slot $3, the current one, if no run has opened
-- it: its run is still to come. With each slot it returns the number of all, and of those that are gaps of the ledger, which
-- ledger_gaps counts, too. It jumps from slot to slot through the slot index. It is thorough, and only for catch-up: while
-- vacuum is held back it walks over dead entries.
-- Called by slots.Runner.find.
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
), troubled as (
    select past.slot
    from past
    where past.slot is not null
        and (
            not exists (select from prescient.slot_run r where r.slot = past.slot)
            or exists (
                select
                from prescient.jobs_in_slot(past.slot) as number
                left join prescient.job j on j.job = number
                where j.paused_at is null
            )
        )
    union
    select r.slot
    from prescient.slot_run r
    where r.state = 'open' and r.slot >= $1 and r.slot < $2
)
select
    t.slot, coalesce(r.state, 'missed') as state, count(*) over () as found,
    count(*) filter (where r.slot is null and t.slot >= (select since from prescient.setting limit 1)) over () as missed
from troubled t
left join prescient.slot_run r on r.slot = t.slot
where t.slot <> $3 or r.kind <> 'by_hand'
order by t.slot
limit $4
