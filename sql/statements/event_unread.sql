-- Returns the consumers that read the outbox themselves, with the oldest event that each has not read: when it was
-- written, and the bytes of the outbox.
-- Called by slots/ledger.Ledger.Unread.
select c.name, o.written_at, pg_total_relation_size('prescient.event_outbox')
from prescient.event_consumer c
cross join lateral (
    select o.written_at
    from prescient.event_outbox o
    where (o.mark, o.position) > (c.mark, c.position)
    order by o.mark, o.position
    limit 1
) as o
where c.address is null
order by c.name
