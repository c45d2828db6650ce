-- Returns up to three sessions that hold locks on tables of the schema ($1), or on tables with triggers that call its
-- functions, in transactions older than $2 seconds, the oldest first. A role without pg_read_all_stats does not see how
-- old the transaction of another role is, and gets all.
-- Called by sql.lockHolders.
select
    format(
        'session %s of %s (%s, %s)', h.pid, coalesce(h.usename, h.backend_type), coalesce(nullif(h.application_name, ''), 'no application_name'),
        coalesce(h.state, 'state unknown')
    ) as holder,
    h.xact_start as since,
    format('select pg_terminate_backend(%s)', h.pid) as mends
from pg_stat_activity h
where h.pid <> pg_backend_pid()
    and coalesce(h.xact_start < clock_timestamp() - make_interval(secs => $2), true)
    and h.pid in (
        select l.pid
        from pg_locks l
        join pg_class c on c.oid = l.relation
        where l.locktype = 'relation'
            and l.granted
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
            and (
                c.relnamespace = to_regnamespace($1)
                or c.oid in (select g.tgrelid from pg_trigger g join pg_proc p on p.oid = g.tgfoid where p.pronamespace = to_regnamespace($1))
            )
    )
order by since nulls last
limit 3
