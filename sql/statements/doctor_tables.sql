-- Returns the tables with the names $4 in schema $1, and the months of history, that vacuum does
-- not keep up with. They have more than $2 dead rows and twice as many dead as live rows, or take
-- more than $3 bytes and 4 kB for each live row. After a crash or a failover the server has counted no row yet: then the
-- last analyze says how many there were, and a table without one is left out. The owner of a table is empty if the
-- session has the rights of that role.
-- The size of a table waits for its lock. So it is asked for these tables alone.
-- Called by cmd/internal/doctor.tables.
with ours as materialized (
    select c.oid, c.relname, c.relowner, c.reltuples, coalesce(c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'::text[], false) as off
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1
        and c.relkind = 'r'
        and (
            c.relname = any ($4)
            or exists (
                select from pg_catalog.pg_inherits i join pg_catalog.pg_class p on p.oid = i.inhparent
                where i.inhrelid = c.oid and p.relnamespace = n.oid and p.relname = any ($4)
            )
        )
), sized as materialized (
    select o.*, s.n_dead_tup as dead, s.n_live_tup as live, pg_table_size(o.oid) as bytes
    from ours o
    join pg_catalog.pg_stat_all_tables s on s.relid = o.oid
)
select t.relname as name, t.dead, t.live, t.bytes, t.off,
    case when pg_has_role(t.relowner, 'usage') then '' else pg_get_userbyid(t.relowner)::text end as owner
from sized t
where t.off
    or t.dead > greatest($2, 2 * t.live)
    or t.bytes > greatest($3, 4096 * greatest(t.live, t.reltuples::bigint)) and (t.live > 0 or t.reltuples >= 0)
order by t.relname
