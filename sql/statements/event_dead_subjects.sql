-- Returns which of the subjects ($2) have refused events of consumer $1: whether one is a dead letter, and whether
-- one is tried again. A message that waits for its time blocks nothing.
-- Called by jobs/event/forward.sender.blocked.
select d.subject, bool_or(d.dead_at is not null), bool_or(d.dead_at is null)
from prescient.event_dead d
where d.consumer = $1
    and d.subject = any ($2::text[])
    and (d.send_at is null or d.refusals > 0)
group by d.subject
