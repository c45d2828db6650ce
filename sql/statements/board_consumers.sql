-- Returns the consumers of the outbox. For each it counts the events that it gets among the first 10,001 behind its
-- position, up to 10,000, and returns whether there are more than these, and how long the oldest has waited, in
-- microseconds.
-- Called by cmd/internal/serve/board.readConsumers.
select
    c.name, c.mark, c.position, c.acked_at, least(page.n, 10000), page.stopped,
    coalesce(extract(epoch from clock_timestamp() - page.oldest) * 1000000, 0)::bigint
from prescient.event_consumer c
cross join lateral (
    select
        count(*) filter (where events.gets) as n,
        count(*) > 10000 as stopped,
        min(events.written_at) filter (where events.gets) as oldest
    from (
        select o.written_at, prescient.gets_event(c.address, c.types, o.type) as gets
        from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
        order by o.mark, o.position
        limit 10001
    ) as events
) as page
order by c.name
limit 100
