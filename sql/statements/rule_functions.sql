-- Returns the first of some functions ($1) that a condition must not call: one that is volatile, or one of the server that
-- looks up the casts of its argument's type when it runs, so that a later cast gives it another meaning.
-- Called by jobs/rule/rulestore.resolver.condition.
select p.oid::regprocedure::text as function, p.provolatile = 'v' as volatile
from pg_proc p
where p.oid = any ($1::oid[])
    and (
        p.provolatile = 'v'
        or p.pronamespace = 'pg_catalog'::regnamespace
            and p.proname ~ '(json|^quote_|^pg_input_)'
            and exists (
                select
                from unnest(p.proargtypes::oid[]) as a (type)
                join pg_type t on t.oid = a.type
                where t.typtype = 'p' or p.proname like 'pg_input_%'
            )
    )
order by p.oid
limit 1
