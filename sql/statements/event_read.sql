-- The events after ($1, $2), see read_events.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, generated_at, data, written_at
from prescient.read_events($1::text::xid8, $2, $3)
