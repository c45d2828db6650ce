-- Returns the first of some functions ($1) that is volatile.
-- Called by jobs/rule/rulestore.resolver.condition.
select p.oid::regprocedure::text as function
from pg_proc p
where p.oid = any ($1::oid[]) and p.provolatile = 'v'
order by p.oid
limit 1
