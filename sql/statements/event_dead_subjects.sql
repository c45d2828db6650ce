-- Returns which of the subjects ($1) have a dead letter, and locks the first one of each, so that it is
-- not sent again meanwhile. A subject that is returned without a lock (false) was sent or discarded
-- between the snapshot and the lock: the caller asks again. It locks in the order of the numbers, as event_dead_take
-- does, so that the two never deadlock.
-- Called by jobs/event/deadletter.publisher.blocked.
select g.subject, d.number is not null
from (
    select u.subject
    from unnest($1::text[]) as u (subject)
    cross join lateral (
        select min(d.number) as number
        from prescient.event_dead d
        where d.subject = u.subject and d.dead_at is not null
    ) as f
    where f.number is not null
    order by f.number
) as g
left join lateral (
    select d.number
    from prescient.event_dead d
    where d.subject = g.subject and d.dead_at is not null
    order by d.number
    limit 1
    for share
) as d on true
