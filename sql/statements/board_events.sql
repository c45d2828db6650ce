-- Returns the newest $1 events of the outbox before position ($2, $3), or of all events if these
-- are null. It cuts their data to 2,000 characters.
-- Called by cmd/internal/serve/board.Board.Events.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, written_at, coalesce(left(data::text, 2000), '') as data
from prescient.event_outbox
where $2::text is null or (mark, position) < ($2::text::xid8, $3)
order by mark desc, position desc
limit $1
