-- How long the newest slot from $1 to $2 that was run in its time took, in microseconds; one that is open: until now.
select r.slot, (extract(epoch from coalesce(r.finished_at, clock_timestamp()) - r.opened_at) * 1000000)::bigint as took
from prescient.slot_run r
where r.slot between $1 and $2 and r.kind = 'run' and (r.state = 'done' or exists (
    select from prescient.slot_claim c where c.slot = r.slot and c.allocated_until >= clock_timestamp()
))
order by r.slot desc
limit 1
