-- Returns the first of some functions ($1) that a condition must not call: one that is volatile, or one whose owner could
-- give it another meaning. A trigger would run it with the rights of the role that applies the rule.
-- Called by jobs/rule/rulestore.resolver.condition.
select p.oid::regprocedure::text as function, p.provolatile = 'v' as volatile, pg_get_userbyid(p.proowner) as owner
from pg_proc p
join pg_roles o on o.oid = p.proowner
where p.oid = any ($1::oid[])
    and (p.provolatile = 'v' or not (o.rolsuper or o.rolname = current_user))
order by p.oid
limit 1
