-- Returns what consumer $1 of the outbox gives up if it is forgotten: events that it has not read, refused events and
-- messages that wait, each counted up to $2, and whether it is a destination. No row: there is no such consumer.
-- Called by jobs/event/outbox.Outbox.Left.
select
    (
        select count(*)
        from (
            select
            from prescient.event_outbox o
            where (o.mark, o.position) > (c.mark, c.position)
                and prescient.gets_event(c.address, c.types, o.type)
            limit $2
        ) as page
    ),
    (select count(*) from (select from prescient.event_dead d where d.consumer = c.name limit $2) as page),
    c.address is not null
from prescient.event_consumer c
where c.name = $1
