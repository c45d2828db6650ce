-- Returns what has held back vacuum and the readers of the outbox for more than $1 microseconds,
-- oldest first: sessions, prepared transactions, and unused replication slots. mends: the statement
-- that ends it.
-- Called by cmd/doctor.holders.
select what, since, mends
from (
    select
        format('session %s of %s (%s, %s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'no application_name'), a.state) as what,
        a.xact_start as since,
        format('select pg_terminate_backend(%s)', a.pid) as mends
    from pg_stat_activity a
    where a.xact_start < clock_timestamp() - $1 * interval '1 microsecond'
        and coalesce(a.backend_xid, a.backend_xmin) is not null
        and a.pid <> pg_backend_pid()
    union all
    select
        format('prepared transaction %L of %s', p.gid, p.owner),
        p.prepared,
        format('rollback prepared %L', p.gid)
    from pg_prepared_xacts p
    where p.prepared < clock_timestamp() - $1 * interval '1 microsecond'
    union all
    select
        format('replication slot %s, which nobody reads', s.slot_name),
        null,
        format('select pg_drop_replication_slot(%L)', s.slot_name)
    from pg_replication_slots s
    where not s.active and coalesce(s.xmin, s.catalog_xmin) is not null
) as holders
order by since nulls last
limit 10
