-- Returns up to $2 events of consumer $1 that are to be tried again now, each with those that wait behind
-- it, in the order of event_dead_list: at most $4 bytes of data, but at least one event. A message that has waited for
-- its time waits on behind a refused one of its subject, and behind a dead letter unless $3 is set. Messages that have
-- waited for their time come with all that are due for their recipient, beyond $2 and $4, because these are told in one
-- message.
-- Called by jobs/event/forward.sender.retry.
with ready as materialized (
    select d.number, d.subject, d.try_at, d.send_at, d.refusals, coalesce(d.recipient, '') as recipient
    from prescient.event_dead d
    where d.consumer = $1
        and d.try_at <= clock_timestamp()
        and (
            d.send_at is null
            or d.refusals > 0
            or not exists (
                select
                from prescient.event_dead b
                where b.consumer = d.consumer and b.subject = d.subject and b.number < d.number
                    and case when b.dead_at is null then b.refusals > 0 else not $3::boolean end
            )
        )
),
due as materialized (
    select r.number, case when r.send_at is null or r.refusals > 0 then r.subject end as subject
    from ready r
    order by r.try_at
    limit $2
),
page as materialized (
    select p.number, p.recipient, p.send_at
    from (
        select p.*, sum(octet_length(p.data::text)) over (order by p.number) as bytes
        from (
            select d.number, d.recipient, d.send_at, d.data
            from prescient.event_dead d
            where d.consumer = $1
                and d.dead_at is null
                and (
                    d.number = any (array(select number from due))
                    or d.subject = any (array(select subject from due where subject is not null)) and (d.send_at is null or d.refusals > 0)
                )
            order by d.number
            limit $2
        ) as p
    ) as p
    where coalesce(p.bytes, 0) <= $4 or p.bytes = octet_length(p.data::text)
),
recipient as materialized (
    select distinct coalesce(p.recipient, '') as recipient
    from page p
    where p.send_at is not null
)
select
    d.number, d.consumer, d.id, d.source, d.type, coalesce(d.subject, ''), d.time, d.published_at, d.data::text, d.refusals,
    coalesce(d.error, ''), d.refused_at, d.dead_at
from prescient.event_dead d
where d.consumer = $1
    and d.dead_at is null
    and (
        d.number in (select number from page)
        or d.number in (
            select r.number
            from ready r
            where r.send_at is not null and r.recipient in (select recipient from recipient)
        )
    )
order by d.number
