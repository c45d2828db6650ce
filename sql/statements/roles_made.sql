-- Whether prescient's tables in schema $1 belong to the role of their owner ($2). An application may own the schema itself.
select coalesce(bool_or(c.relowner = to_regrole($2)), false)
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = 'setting'
