-- Returns the triggers with names ($2) that a table ($1) has, with their functions and the owners of these. Triggers that do
-- not fire for applications do not count. exposes: the owner is a superuser, and that of the table is not.
-- Called by jobs/rule/rulestore.Store.find.
select
    t.tgname::text as name, p.prosrc as body, coalesce(encode(t.tgargs, 'escape'), '') as argument, p.prosecdef as definer,
    quote_ident(o.rolname) as owner, o.rolsuper and not a.rolsuper as exposes
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_roles o on o.oid = p.proowner
join pg_class c on c.oid = t.tgrelid
join pg_roles a on a.oid = c.relowner
where t.tgrelid = to_regclass($1)
    and t.tgname = any ($2::text[])
    and t.tgenabled in ('O', 'A')
    and p.proname = t.tgname
