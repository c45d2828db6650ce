-- The last statement of a transaction that a check writes through: it counts what was done, and it is the fence, which
-- many of them hold at once. No row: the lease is lost, and the transaction must be rolled back.
with fence as (
    select slot, shard
    from prescient.slot_lease
    where slot = $1 and shard = $2 and token = $3 and runner is not null
    for share
), counted as (
    insert into prescient.slot_tally (slot, shard, finished, rescheduled, failed)
    select slot, shard, $4, $5, $6
    from fence
)
select shard
from fence
