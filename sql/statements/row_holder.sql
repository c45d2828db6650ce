-- Who has held the lock of one of a few rows ($5) for longer than $6 microseconds; $1 to $4 are
-- those of page_read. Checks of other runners, which end, are left out: a login that may not claim rows
-- is no runner, whatever its application_name. A role without pg_read_all_stats does not see since when.
-- A row that several transactions have locked at once names none of them.
-- Called by slots/internal/db.RowWait.LogHolder.
with locks as (
    select l.pid, l.transactionid, l.granted
    from pg_locks l
    where l.locktype = 'transactionid'
        and l.transactionid in (
            select f.xmax
            from prescient.future_job f
            where f.next_check_at = $1
                and f.job = any ($2::bigint[])
                and f.id between $3 and $4
                and f.id + 0 = any ($5::bigint[])
        )
)
select
    format('session %s of %s (%s, %s)', h.pid, h.usename, coalesce(nullif(h.application_name, ''), 'no application_name'), coalesce(h.state, 'state unknown')) as holder,
    h.xact_start as since,
    format('select pg_terminate_backend(%s)', h.pid) as mends
from locks l
join pg_stat_activity h on h.pid = l.pid
where l.granted
    and not (h.application_name like 'prescient claim %' and has_table_privilege(h.usesysid, 'prescient.slot_claim', 'insert'))
    and coalesce(h.xact_start, h.state_change, 'epoch') < clock_timestamp() - $6 * interval '1 microsecond'
union all
select format('prepared transaction %L of %s', p.gid, p.owner), p.prepared, format('rollback prepared %L', p.gid)
from locks l
join pg_prepared_xacts p on p.transaction = l.transactionid
where l.granted
order by since nulls last
limit 1
