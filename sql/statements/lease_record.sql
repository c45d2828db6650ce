-- The last statement of every batch: it adds up what was done, shard by shard, and it is the fence. The lease of a shard
-- that does not come back is lost, and the transaction must be rolled back. Two batches never wait for each other in a
-- circle: leases are locked in the order of their shards.
with mine as (
    select l.shard
    from prescient.slot_lease l
    join unnest($2::smallint[], $3::bigint[]) as held (shard, token) on held.shard = l.shard and held.token = l.token
    where l.slot = $1 and l.runner is not null
    order by l.shard
    for update of l
), counted as (
    select *
    from unnest($2::smallint[], $4::bigint[], $5::bigint[], $6::bigint[]) as n (shard, finished, rescheduled, failed)
)
update prescient.slot_lease l
set finished = l.finished + n.finished,
    rescheduled = l.rescheduled + n.rescheduled,
    failed = l.failed + n.failed
from mine
join counted n on n.shard = mine.shard
where l.slot = $1 and l.shard = mine.shard
returning l.shard
