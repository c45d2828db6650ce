-- Returns the triggers that call functions of a schema ($2) by their names ($1), and that fire for applications, but not
-- their copies for partitions.
-- Called by internal/rulestore.Store.findAlso.
select format('%I.%I', n.nspname, c.relname) as relation, t.tgname::text as name, p.prosrc as body
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_namespace f on f.oid = p.pronamespace
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where f.nspname = $2 and p.proname = any ($1::text[]) and t.tgparentid = 0 and t.tgenabled in ('O', 'A')
