-- Hands shards back before they are done.
update prescient.slot_lease l
set runner = null,
    allocated_until = null
from unnest($2::smallint[], $3::bigint[]) as mine (shard, token)
where l.slot = $1 and l.shard = mine.shard and l.token = mine.token
returning l.shard
