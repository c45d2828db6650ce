-- Returns the newest $1 readable events, oldest first. See the function newest_events.
-- Called by jobs/event/outbox.Outbox.Newest.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, published_at, data, written_at
from prescient.newest_events($1)
