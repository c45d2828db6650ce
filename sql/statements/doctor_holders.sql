-- Returns what has held back vacuum and the readers of the outbox for more than $1 microseconds,
-- oldest first: sessions, prepared transactions, and replication slots without a reader. mends: what
-- ends it.
-- Called by cmd/internal/doctor.holders.
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
        and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid) -- it holds back neither
    union all
    select
        format('prepared transaction %L of %s', p.gid, p.owner),
        p.prepared,
        format('rollback prepared %L', p.gid)
    from pg_prepared_xacts p
    where p.prepared < clock_timestamp() - $1 * interval '1 microsecond'
    union all
    select
        format(
            'replication slot %s (%s%s), which has no reader now, keeps %s of WAL, and',
            s.slot_name, coalesce(s.plugin, s.slot_type), coalesce(' in database ' || s.database, ''),
            coalesce(pg_size_pretty(pg_wal_lsn_diff(
                case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, s.restart_lsn
            )), 'none')
        ),
        (to_jsonb(s) ->> 'inactive_since')::timestamptz, -- from PostgreSQL 17 on
        format(
            'start its reader again: the slot is the position of a subscription, a standby or an export. Only if its owner '
                'no longer needs it: select pg_drop_replication_slot(%L)', s.slot_name
        )
    from pg_replication_slots s
    where not s.active and coalesce(s.xmin, s.catalog_xmin) is not null
) as holders
order by since nulls last
limit 10
