-- Returns which of the subjects ($2) have messages that consumer $1 has refused, or holds back: all, while it is down.
-- Called by internal/alert.Told.
select d.subject
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
union all
select unnest($2::text[])
from prescient.event_consumer c
where c.name = $1
    and c.failing_since is not null
