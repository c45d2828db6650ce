-- Returns those of the subjects ($2) of which consumer $1 has refused messages, or gets none because of such a message. A
-- row with null says that it is down.
-- Called by internal/alert.refused.
select d.subject
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
union all
select null
from prescient.event_consumer c
where c.name = $1
    and c.failing_since is not null
