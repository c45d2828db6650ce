-- Shards of a slot that other runners hold, and how long until the first of their leases ends.
select
    count(*) as held,
    coalesce(extract(epoch from min(allocated_until) - clock_timestamp()) * 1000000, 0)::bigint as microseconds
from prescient.slot_lease
where slot = $1
