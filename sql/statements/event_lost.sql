-- Returns the last removed event if it comes after position ($1, $2): then the reader at that
-- position has missed events. The caller leaves out one whose transaction number this server has not
-- reached: it is from before a restore.
-- Called by jobs/event/outbox.Outbox.lost.
select mark, position, written_at, removed_at
from prescient.event_watermark
where (mark, position) > ($1::text::xid8, $2)
