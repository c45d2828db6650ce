-- Returns the events after position ($1, $2). See the function read_events.
-- Called by jobs/event/outbox.Outbox.Read.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, published_at, data, written_at
from prescient.read_events($1::text::xid8, $2, $3)
