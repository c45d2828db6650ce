-- Returns the runners at open slots. One without jobs has no claim at the moment.
-- Called by slots/ledger.Ledger.Claims.
select
    c.slot, c.token, c.kind, array(select j.name from prescient.job j where j.job = any (c.jobs) order by j.name) as jobs,
    c.runner, c.allocated_until, c.allocated_until >= clock_timestamp() as live
from prescient.slot_claim c
where $1::timestamptz is null or c.slot = $1
order by c.slot, c.runner, c.token
limit 1000
