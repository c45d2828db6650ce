-- Returns the first object that a function ($1) uses, and whose owner could let it run other code: a function, the function
-- of an operator, or a type that may be a domain, whose checks run. A superuser and the caller may own them. The type of the rows
-- of a table ($2) does not count.
-- Called by jobs/rule/rulestore.Store.refuseForeign.
select pg_describe_object(d.refclassid, d.refobjid, 0) as object, o.rolname::text as owner
from pg_depend d
cross join lateral (
    select p.proowner as owner
    from pg_proc p
    where d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
    union all
    select p.proowner
    from pg_operator a
    join pg_proc p on p.oid = a.oprcode
    where d.refclassid = 'pg_operator'::regclass and a.oid = d.refobjid
    union all
    select e.typowner
    from pg_type t
    join pg_type e on e.oid = coalesce(nullif(t.typelem, 0), t.oid)
    where d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
        and e.typtype in ('d', 'c', 'r', 'm') -- of another kind is an enum, or a type that a superuser made
        and e.typrelid is distinct from $2::regclass
) as u
join pg_roles o on o.oid = u.owner
where d.classid = 'pg_proc'::regclass
    and d.objid = to_regprocedure($1)
    and not (o.rolsuper or o.rolname = current_user)
order by 1
limit 1
