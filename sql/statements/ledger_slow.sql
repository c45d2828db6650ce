-- Returns the slot that took longest, and how long, in microseconds; see the function slot_took. It
-- looks at the newest four slots from $1 to $2 that were run in their time, and leaves out slots of
-- another width, and those that waited for a lock of another session. The newest slot alone has never
-- taken longer than the width while runs overlap.
-- Called by slots/ledger.Ledger.Took.
select
    r.slot,
    prescient.slot_took(
        r.state, r.worked, r.opened_at, r.resumed_at, r.finished_at,
        (select max(s.last_at) from prescient.slot_job s where s.slot = r.slot), r.state = 'open'
    ) as took
from prescient.slot_run r
where r.slot between greatest($1, (select since from prescient.setting)) and $2
    and r.kind = 'run'
    and r.waited_for is null
    and (r.state = 'done' or exists (
        select from prescient.slot_claim c where c.slot = r.slot and c.kind = 'run' and c.allocated_until >= clock_timestamp()
    ))
    and r.slot >= coalesce((
        select n.slot from prescient.slot_run n where n.slot between $1 and $2 and n.kind = 'run' order by n.slot desc offset 3 limit 1
    ), $1)
order by took desc, r.slot
limit 1
