-- Returns up to $3 events after position ($1, $2) like event_read, and at most $4 bytes of data, but at least one
-- event.
-- Called by jobs/event/outbox.Outbox.PageTx.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, published_at, data, written_at
from (
    select o.*, sum(coalesce(octet_length(o.data::text), 0)) over (order by o.mark, o.position rows unbounded preceding) as bytes
    from prescient.read_events($1::text::xid8, $2, $3) as o
) as o
where bytes <= $4 or bytes = coalesce(octet_length(data::text), 0)
order by mark, position
