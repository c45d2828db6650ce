select name, mark, position, acked_at
from prescient.event_consumer
where $1::text is null or name = $1
order by name
