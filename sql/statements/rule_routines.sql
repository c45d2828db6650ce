-- Returns the functions with names ($1) in a schema ($2).
-- Called by jobs/rule/rulestore.Store.uninstall.
select p.oid::regprocedure::text as routine
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where p.proname = any ($1::text[]) and n.nspname = $2
order by 1
