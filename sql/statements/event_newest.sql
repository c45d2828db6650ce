-- The newest $1 events that can be read, the oldest of them first, see newest_events.
select mark, position, id, source, type, coalesce(subject, '') as subject, time, generated_at, data, written_at
from prescient.newest_events($1)
