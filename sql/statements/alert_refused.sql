-- Returns which of the subjects ($2) have messages that consumer $1 has refused, or holds back: all, while it is down.
-- letter: whether such a message is among the refused events.
-- Called by internal/alert.refused.
select d.subject, true as letter
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
union all
select unnest($2::text[]), false
from prescient.event_consumer c
where c.name = $1
    and c.failing_since is not null
