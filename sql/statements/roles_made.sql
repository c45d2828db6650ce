-- Reports whether prescient's tables in schema $1 belong to their owner role ($2). The schema
-- itself may belong to an application.
-- Called by sql.rolesMade.
select coalesce(bool_or(c.relowner = to_regrole($2)), false)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = 'setting'
