-- Consumers by name. ahead: its mark is a number that this server has given to no transaction yet, so it is another
-- server's.
select name, mark, position, acked_at, mark >= pg_snapshot_xmax(pg_current_snapshot()) as ahead
from prescient.event_consumer
where $1::text is null or name = $1
order by name
