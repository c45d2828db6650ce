-- Lists the newest 100 messages about a subject ($1), the oldest first: the consumer, what became of it (sent, later,
-- refused, dead or waits), when, the error, and the data. One that was sent has no data. The caller reads the text, because
-- PostgreSQL takes no text out of JSON that has a text such as \u0000.
-- Called by jobs/event/outbox.Outbox.Messages.
select consumer, state, at, error, data
from (
    select m.*
    from (
        (
            select s.consumer, 'sent' as state, s.sent_at as at, '' as error, null::text as data
            from prescient.event_sent s
            where s.subject = $1
            order by s.sent_at desc
            limit 100
        )
        union all
        select
            d.consumer,
            case when d.dead_at is not null then 'dead' when d.refusals = 0 and d.send_at is not null then 'later' else 'refused' end,
            coalesce(d.dead_at, d.try_at, d.refused_at), coalesce(d.error, ''), d.data::text
        from prescient.event_dead d
        join prescient.event_consumer c on c.name = d.consumer
        where c.name like 'receiver:%' and d.subject = $1
        union all
        select c.name, 'waits', o.written_at, coalesce(c.error, ''), o.data::text
        from prescient.event_consumer c
        cross join lateral (
            select p.type, p.subject, p.written_at, p.data
            from (
                select o.type, o.subject, o.written_at, o.data
                from prescient.event_outbox o
                where (o.mark, o.position) > (c.mark, c.position)
                order by o.mark, o.position
                limit 10000
            ) as p
            where p.subject = $1 and p.type like any (c.types)
        ) as o
        where c.name like 'receiver:%'
    ) as m
    order by at desc
    limit 100
) as m
order by at
