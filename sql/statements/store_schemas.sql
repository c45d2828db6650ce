-- Returns the schemas whose names are like $1 and that hold a store.
-- Called by internal/pg.Schemas.
select n.nspname
from pg_catalog.pg_namespace n
where n.nspname like $1
	and exists (select from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relname = 'setting' and c.relkind = 'r')
	and exists (select from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relname = 'future_job' and c.relkind in ('r', 'p'))
order by n.nspname;
