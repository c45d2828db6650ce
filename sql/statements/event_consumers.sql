-- Returns the consumers by name. ahead: the consumer is at a transaction number that this server
-- has not reached, so the number comes from another server.
-- Called by jobs/event/outbox.Outbox.consumers.
-- Called by slots/ledger.Ledger.ConsumersAhead.
select name, mark, position, acked_at, mark >= pg_snapshot_xmax(pg_current_snapshot()) as ahead
from prescient.event_consumer
where $1::text is null or name = $1
order by name
