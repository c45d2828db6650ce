-- Returns the functions of other schemas that have a name ($1), as SQL.
-- Called by internal/rulestore.Store.missingFunction.
select distinct quote_ident(n.nspname) || '.' || quote_ident(p.proname) as name
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where p.proname = $1 and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\_temp%'
order by name
limit 3
