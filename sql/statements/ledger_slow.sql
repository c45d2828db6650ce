-- The slot that took longest of the newest four from $1 to $2 that were run in their time, and how long, in microseconds; one
-- that is open: until now. Those of another width are not judged by this one. The newest alone has never taken longer than the
-- width while runs overlap.
select r.slot, (extract(epoch from coalesce(r.finished_at, clock_timestamp()) - r.opened_at) * 1000000)::bigint as took
from prescient.slot_run r
where r.slot between greatest($1, (select since from prescient.setting)) and $2 and r.kind = 'run' and (r.state = 'done' or exists (
    select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp()
))
    and r.slot >= coalesce((
        select n.slot from prescient.slot_run n where n.slot between $1 and $2 and n.kind = 'run' order by n.slot desc offset 3 limit 1
    ), $1)
order by took desc
limit 1
