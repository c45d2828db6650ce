-- The last statement of every batch: it adds up what was done, and it is the fence. No row: the lease is lost,
-- and the transaction must be rolled back.
update prescient.slot_lease
set finished = finished + $4,
    rescheduled = rescheduled + $5,
    failed = failed + $6
where slot = $1 and shard = $2 and token = $3 and runner is not null
returning shard
