-- Returns the triggers with names ($2) that a table ($1) has, with their functions, which are in a schema ($3). Triggers that do
-- not fire for applications do not count. No row: the function of a row ($4) is gone.
-- Called by jobs/rule/rulestore.Store.find.
select t.tgname::text as name, p.prosrc as body, coalesce(encode(t.tgargs, 'escape'), '') as argument, p.prosecdef as definer
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = to_regclass($1)
    and t.tgname = any ($2::text[])
    and t.tgenabled in ('O', 'A')
    and p.proname = t.tgname
    and n.nspname = $3
    and exists (select from pg_proc f where f.pronamespace = n.oid and f.proname = $4)
