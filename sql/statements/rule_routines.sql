-- Returns the functions of the triggers of a rule, in any schema: those with names ($1) whose body has the name of the
-- rule as a literal ($2). A table or a schema may have been renamed since the rule was applied. Another role may have
-- functions of the same names. So the owner is the role for rules ($3) or a member of the role for operators ($4) or,
-- without roles, a role that the caller is a member of.
-- Called by jobs/rule/rulestore.Store.uninstall.
select format('%I.%I()', n.nspname, p.proname) as routine
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where p.proname = any ($1::text[])
    and p.pronargs = 0
    and p.prorettype = 'trigger'::regtype
    and strpos(p.prosrc, $2) > 0
    and not pg_is_other_temp_schema(n.oid)
    and case
        when to_regrole(quote_ident($3)) is null then pg_has_role(p.proowner, 'usage')
        else pg_get_userbyid(p.proowner) = $3 or pg_has_role(p.proowner, $4::name, 'member')
    end
order by 1
