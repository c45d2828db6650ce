-- Returns the owner of a function ($1), as SQL. No row: there is no such function.
-- Called by jobs/rule/rulestore.trigger.define.
select quote_ident(o.rolname) as owner
from pg_proc p
join pg_roles o on o.oid = p.proowner
where p.oid = to_regprocedure($1)
