-- Returns for how many seconds the oldest transaction on the server that has written something has
-- run. Readers of the outbox see nothing that was written after it. A role without
-- pg_read_all_stats sees only its own sessions.
-- Called by slots/metrics.snapshot.readOutbox.
select coalesce(max(extract(epoch from clock_timestamp() - t.began)), 0)::float8 as seconds
from (
    select xact_start as began from pg_stat_activity where backend_xid is not null
    union all
    select prepared from pg_prepared_xacts
) as t
