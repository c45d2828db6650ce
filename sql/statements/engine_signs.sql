-- Returns signs of engines that report a version of PostgreSQL: an extension, or a view of their
-- own.
-- Called by sql.engineSays.
select coalesce(string_agg(sign, ' '), '')
from (
    select 'extension ' || extname as sign
    from pg_extension
    where extname in ('bdr', 'aurora_limitless_fdw')
    union all
    select 'view sys.' || c.relname
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'sys' and c.relname = 'iam_pg_role_mappings'
) as signs
