-- Takes up to $2 free or expired shards of a slot. Rows that another runner is claiming are passed over.
-- settled: every transaction from before $5, when the slot was open already, has ended, and what it wrote can be read.
with free as (
    select slot, shard, allocated_until is not null as expired
    from prescient.slot_lease
    where slot = $1 and (allocated_until is null or allocated_until < clock_timestamp())
    order by shard
    limit $2
    for update skip locked
), claimed as (
    update prescient.slot_lease l
    set token = nextval('prescient.slot_token'),
        runner = $3,
        allocated_until = clock_timestamp() + $4 * interval '1 microsecond'
    from free
    where l.slot = free.slot and l.shard = free.shard
    returning l.shard, l.token, free.expired
), counted as (
    update prescient.slot_run
    set take_overs = take_overs + (select count(*) from claimed where expired)
    where slot = $1 and exists (select from claimed where expired)
)
select
    shard, token, expired,
    coalesce(pg_snapshot_xmin(pg_current_snapshot()) >= $5::text::xid8, false) as settled
from claimed
