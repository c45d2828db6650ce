select
    slot, shard, token, coalesce(runner, '') as runner, allocated_until,
    coalesce(allocated_until >= clock_timestamp(), false) as live
from prescient.slot_lease
where $1::timestamptz is null or slot = $1
order by slot, shard
limit 1000
