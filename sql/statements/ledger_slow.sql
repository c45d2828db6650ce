-- Returns the slot that took longest, and how long, in microseconds. It looks at the newest four
-- slots from $1 to $2 that were run in their time, and leaves out slots of another width.
-- A slot with a runner has taken until now. A finished slot has taken until its last outcome was
-- recorded. The time in which it was open without a runner does not count: it waited for a job that
-- no run knew, or for another runner after a kill. The newest slot alone has never taken longer than
-- the width while runs overlap.
-- Called by slots/ledger.Ledger.Took.
select
    r.slot,
    (extract(epoch from r.worked + greatest(interval '0', case r.state
        when 'open' then clock_timestamp()
        else (select max(s.last_at) from prescient.slot_job s where s.slot = r.slot)
    end - coalesce(r.resumed_at, r.opened_at))) * 1000000)::bigint as took
from prescient.slot_run r
where r.slot between greatest($1, (select since from prescient.setting)) and $2 and r.kind = 'run' and (r.state = 'done' or exists (
    select from prescient.slot_claim c where c.slot = r.slot and c.kind = 'run' and c.allocated_until >= clock_timestamp()
))
    and r.slot >= coalesce((
        select n.slot from prescient.slot_run n where n.slot between $1 and $2 and n.kind = 'run' order by n.slot desc offset 3 limit 1
    ), $1)
order by took desc, r.slot
limit 1
