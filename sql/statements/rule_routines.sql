-- Returns the functions of the triggers of a rule, in any schema: those with names ($1) whose body has the name of the
-- rule as a literal ($2). A table or a schema may have been renamed since the rule was applied.
-- Called by jobs/rule/rulestore.Store.uninstall.
select format('%I.%I()', n.nspname, p.proname) as routine
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where p.proname = any ($1::text[])
    and p.pronargs = 0
    and p.prorettype = 'trigger'::regtype
    and strpos(p.prosrc, $2) > 0
order by 1
