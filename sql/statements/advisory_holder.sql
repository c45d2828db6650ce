-- Returns the session that holds the advisory lock with a name ($1), and the statement that ends it. It
-- leaves out checks of other runs under the login of this one.
-- Called by slots/internal/db.Advisory.Wait.
select
    l.pid,
    format('session %s of %s (%s, %s)', l.pid, h.usename, coalesce(nullif(h.application_name, ''), 'no application_name'), coalesce(h.state, 'state unknown')) as holder,
    format('select pg_terminate_backend(%s)', l.pid) as mends
from pg_locks l
join pg_stat_activity h on h.pid = l.pid
where l.locktype = 'advisory'
    and l.granted
    and l.objsubid = 1
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1, 0)
    and not (h.usename = current_user and h.application_name like 'prescient claim %')
