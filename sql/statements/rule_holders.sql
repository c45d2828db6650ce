-- Returns the first session that holds a lock of a table ($1) because of which a trigger of it
-- cannot be created or dropped, or the lock of its rule ($3), such as a check, or has enqueued the
-- first check of the rule's name.
-- Called by internal/rulestore.Store.locked.
select format('session %s of %s (%s, %s)', h.pid, h.usename, coalesce(nullif(h.application_name, ''), 'no application_name'), coalesce(h.state, 'state unknown')) as holder,
    format('select pg_terminate_backend(%s)', h.pid) as mends
from pg_locks l
join pg_stat_activity h on h.pid = l.pid
where l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.granted
    and l.pid <> pg_backend_pid()
    and (
        l.locktype = 'relation'
            and l.relation = to_regclass($1)
            and ($2::boolean or l.mode not in ('AccessShareLock', 'RowShareLock'))
        or l.locktype = 'advisory'
            and l.objsubid = 1
            and (l.classid::bigint << 32 | l.objid::bigint) in (
                hashtextextended('prescient.rule ' || $3, 0), hashtextextended('prescient.job ' || $3, 0)
            )
    )
order by h.xact_start nulls last
limit 1
