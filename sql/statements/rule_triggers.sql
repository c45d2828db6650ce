-- Returns the triggers with names ($2) that a table ($1) has, with their functions. Triggers that do not fire for applications
-- do not count.
-- Called by jobs/rule/rulestore.Store.missing.
select t.tgname::text as name, p.prosrc as body, coalesce(encode(t.tgargs, 'escape'), '') as argument, p.prosecdef as definer
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
where t.tgrelid = to_regclass($1)
    and t.tgname = any ($2::text[])
    and t.tgenabled in ('O', 'A')
    and p.proname = t.tgname
