-- Returns up to $2 events of consumer $1 that are to be tried again now, each with those that wait behind
-- it, in the order of event_dead_list.
-- Called by jobs/event/forward.sender.retry.
with due as materialized (
    select d.number, case when d.send_at is null or d.refusals > 0 then d.subject end as subject
    from prescient.event_dead d
    where d.consumer = $1 and d.try_at <= clock_timestamp()
    order by d.try_at
    limit $2
)
select
    d.number, d.consumer, d.id, d.source, d.type, coalesce(d.subject, ''), d.time, d.published_at, d.data::text, d.refusals,
    coalesce(d.error, ''), d.refused_at, d.dead_at
from prescient.event_dead d
where d.consumer = $1
    and d.dead_at is null
    and (
        d.number = any (array(select number from due))
        or d.subject = any (array(select subject from due where subject is not null)) and (d.send_at is null or d.refusals > 0)
    )
order by d.number
limit $2
