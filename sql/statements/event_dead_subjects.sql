-- Returns which of the subjects ($1) have a dead letter, and locks the first one of each, so that it is
-- not sent again meanwhile. A subject that is returned without a lock (false) was sent or discarded
-- between the snapshot and the lock: the caller asks again.
-- Called by jobs/event/deadletter.publisher.blocked.
select g.subject, d.number is not null
from unnest($1::text[]) as g (subject)
left join lateral (
    select d.number
    from prescient.event_dead d
    where d.subject = g.subject and d.dead_at is not null
    order by d.number
    limit 1
    for share
) as d on true
where exists (select from prescient.event_dead d where d.subject = g.subject and d.dead_at is not null)
