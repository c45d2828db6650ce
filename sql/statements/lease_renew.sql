-- The heartbeat. Shards that do not come back are lost.
update prescient.slot_lease l
set allocated_until = clock_timestamp() + $4 * interval '1 microsecond'
from unnest($2::smallint[], $3::bigint[]) as mine (shard, token)
where l.slot = $1 and l.shard = mine.shard and l.token = mine.token and l.runner is not null
returning l.shard
