-- Counts the events that wait for each consumer, among the first 10,000 behind its position, and returns how long the
-- oldest has waited. Without a consumer all events wait, for one without a name.
-- Called by slots/metrics.snapshot.readOutbox.
select c.name, page.n, coalesce(extract(epoch from clock_timestamp() - page.oldest), 0)::float8
from (
    (select name, mark, position, address, types from prescient.event_consumer order by name limit 100)
    union all
    select '', '0'::xid8, 0, null, null
    where not exists (select from prescient.event_consumer)
) as c
cross join lateral (
    select
        count(*) filter (where events.gets) as n,
        min(events.written_at) filter (where events.gets) as oldest
    from (
        select o.written_at, prescient.gets_event(c.address, c.types, o.type) as gets
        from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
        order by o.mark, o.position
        limit 10000
    ) as events
) as page
order by c.name
