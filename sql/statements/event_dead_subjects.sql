-- Returns which of the subjects ($2) have refused events of consumer $1: whether one is a dead letter, and whether
-- one is tried again.
-- Called by jobs/event/forward.sender.blocked.
select d.subject, bool_or(d.dead_at is not null), bool_or(d.dead_at is null)
from prescient.event_dead d
where d.consumer = $1 and d.subject = any ($2::text[])
group by d.subject
