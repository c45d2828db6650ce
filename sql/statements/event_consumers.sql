-- Returns the consumers by name. One that is at a transaction number beyond those of event_bounds,
-- when these are read afterwards, comes from another server.
-- Called by jobs/event/outbox.Outbox.consumers.
select name, mark, position, acked_at
from prescient.event_consumer
where $1::text is null or name = $1
order by name
