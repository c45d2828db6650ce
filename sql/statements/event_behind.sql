-- Returns the destinations with events that wait: how many of the outbox, how many refused ones that are tried again, and
-- how many messages whose time has passed, each up to 10,000, and whether there are more. It also returns whether the
-- destination has refused one of them, since when they wait, and the error of the last try.
-- Called by slots/ledger.Ledger.DestinationsBehind.
select
    c.name, c.address, least(o.n, 10000), o.n > 10000, least(d.n - d.due, 10000), d.n > 10000 and d.n > d.due, least(d.due, 10000), d.n > 10000 and d.due > 0,
    d.refused, least(o.oldest, d.oldest), c.failing_since, coalesce(c.error, d.error, ''),
    coalesce(c.allocated_until > clock_timestamp(), false)
from prescient.event_consumer c
cross join lateral (
    select count(*) as n, min(page.written_at) as oldest
    from (
        select o.written_at
        from prescient.event_outbox o
        where (o.mark, o.position) > (c.mark, c.position)
            and prescient.gets_event(c.address, c.types, o.type)
        order by o.mark, o.position
        limit 10001
    ) as page
) as o
cross join lateral (
    select
        count(*) as n,
        count(*) filter (where page.send_at is not null and page.refusals = 0) as due,
        coalesce(bool_or(page.refusals > 0), false) as refused,
        min(greatest(page.refused_at, page.send_at)) as oldest,
        (array_agg(page.error order by page.number desc) filter (where page.error is not null))[1] as error
    from (
        select d.refused_at, d.send_at, d.refusals, d.error, d.number
        from prescient.event_dead d
        where d.consumer = c.name and d.dead_at is null and (d.send_at is null or d.refusals > 0 or d.send_at < clock_timestamp())
        order by d.number
        limit 10001
    ) as page
) as d
where c.address is not null and (o.n > 0 or d.n > 0)
order by c.name
