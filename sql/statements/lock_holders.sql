-- Returns the sessions that hold locks for which sessions with the login and application_name of this
-- one have waited more than $1 microseconds, and the statement that ends each. A role without
-- pg_read_all_stats sees neither since when, nor what the holder does.
-- Called by cmd/internal/database.watchLocks.
select distinct
    case w.locktype
        when 'relation' then w.relation::regclass::text
        when 'transactionid' then 'a row'
        when 'tuple' then 'a row of ' || w.relation::regclass::text
        else w.locktype || ' lock'
    end as what,
    format('session %s of %s (%s, %s)', h.pid, h.usename, coalesce(nullif(h.application_name, ''), 'no application_name'), coalesce(h.state, 'state unknown')) as holder,
    h.xact_start as since,
    format('select pg_terminate_backend(%s)', h.pid) as mends
from pg_stat_activity a
join pg_locks w on w.pid = a.pid and not w.granted and w.waitstart < clock_timestamp() - $1 * interval '1 microsecond'
cross join lateral unnest(pg_blocking_pids(a.pid)) as b (pid)
join pg_stat_activity h on h.pid = b.pid
where a.application_name = current_setting('application_name')
    and a.usename = session_user -- another login may choose any application_name
    and a.datname = current_database()
order by since nulls last
limit 10
