-- The instants of a schedule from $2 up to but not including $3 that are in the outbox, as Unix seconds. It reads all of the
-- outbox, which has no index of its own for that: each one would cost whenever an event is written.
select extract(epoch from time)::bigint
from prescient.event_outbox
where subject = $1
    and time >= $2
    and time < $3
    and id = $1 || '-' || extract(epoch from time)::bigint
