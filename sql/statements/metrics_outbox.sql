-- Counts the events that wait for each consumer, up to 10,000, and returns how long the oldest has
-- waited. Without a consumer all events wait, for one without a name.
-- Called by slots/metrics.snapshot.readOutbox.
select
    c.name,
    (
        select count(*)
        from (
            select from prescient.event_outbox o
            where (o.mark, o.position) > (c.mark, c.position)
            order by o.mark, o.position
            limit 10000
        ) as page
    ) as waiting,
    coalesce((
        select extract(epoch from clock_timestamp() - o.written_at)
        from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
        order by o.mark, o.position
        limit 1
    ), 0)::float8 as oldest
from (
    (select name, mark, position from prescient.event_consumer order by name limit 100)
    union all
    select '', '0'::xid8, 0
    where not exists (select from prescient.event_consumer)
) as c
order by c.name
