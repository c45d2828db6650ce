-- The fence of a transaction that a check writes through: many of them hold it at once. No row: the lease is lost, and
-- the transaction must be rolled back.
select shard
from prescient.slot_lease
where slot = $1 and shard = $2 and token = $3 and runner is not null
for share
