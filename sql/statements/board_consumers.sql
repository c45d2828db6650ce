-- Returns the consumers of the outbox. For each it counts the events that wait, up to 10,000,
-- and returns whether there are more, and how long the first has waited, in microseconds.
-- Called by cmd/internal/serve/board.readConsumers.
select
    c.name, c.mark, c.position, c.acked_at,
    least(page.n, 10000) as waiting,
    page.n > 10000 as stopped,
    coalesce((
        select extract(epoch from clock_timestamp() - o.written_at) * 1000000
        from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
        order by o.mark, o.position
        limit 1
    ), 0)::bigint as oldest
from prescient.event_consumer c
cross join lateral (
    select count(*) as n
    from (
        select from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
        order by o.mark, o.position
        limit 10001
    ) as events
) as page
order by c.name
limit 100
