-- Returns the tables with the names $4 in schema $1, and the months of history, that vacuum does
-- not keep up with. They have more than $2 dead rows and twice as many dead as live rows, or take
-- more than $3 bytes and 4 kB for each live row. The owner of a table is empty if the session has
-- the rights of that role.
-- Called by cmd/internal/doctor.tables.
select c.relname as name, s.n_dead_tup as dead, s.n_live_tup as live, pg_table_size(c.oid) as bytes,
    coalesce(c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'::text[], false) as off,
    case when pg_has_role(c.relowner, 'usage') then '' else pg_get_userbyid(c.relowner)::text end as owner
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_stat_all_tables s on s.relid = c.oid
where n.nspname = $1
    and c.relkind = 'r'
    and (
        c.relname = any ($4)
        or exists (
            select from pg_catalog.pg_inherits i join pg_catalog.pg_class p on p.oid = i.inhparent
            where i.inhrelid = c.oid and p.relnamespace = n.oid and p.relname = any ($4)
        )
    )
    and (
        c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off}'::text[]
        or s.n_dead_tup > greatest($2, 2 * s.n_live_tup)
        or pg_table_size(c.oid) > greatest($3, 4096 * s.n_live_tup)
    )
order by c.relname
