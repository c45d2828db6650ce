-- Returns the instants of a schedule from $2 up to but not including $3 that are in the outbox, in
-- Unix seconds. It reads the whole outbox: an index for it would cost at each event that is
-- written.
-- Called by jobs/schedule.backfill.find.
select extract(epoch from time)::bigint
from prescient.event_outbox
where subject = $1
    and time >= $2
    and time < $3
    and id = $1 || '-' || extract(epoch from time)::bigint
