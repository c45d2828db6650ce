-- Returns why the triggers of a rule must not call a function with a body that is bound, or null. It may call no volatile
-- function, and none of the server that looks up casts, or runs queries, when it runs: their meaning could change later.
-- It must not use an object whose owner could let it run other code: a function, an operator, which has others for its
-- negation, or a type that is or has a domain, whose checks run. A superuser and the caller may own them. The type of the
-- first parameter does not count: it has the columns that the rule reads.
-- The role that calls it, which is the current one by default, must have the right to execute what it calls.
-- An apply calls it for each expression. A session plans it once: the plan costs 2 to 7 ms, and a call then 0.6.
-- Called when the functions of triggers are created, by statements that rules sql prints, too.
create or replace function prescient.refuse_routine(routine regprocedure, caller text default null)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return (
        with recursive used as (
            select d.refclassid, d.refobjid
            from pg_depend d
            join pg_proc p on p.oid = d.objid
            where d.classid = 'pg_proc'::regclass and d.objid = routine
                and not (d.refclassid = 'pg_type'::regclass and d.refobjid = p.proargtypes[0])
        ), types as (
            select u.refobjid as oid
            from used u
            where u.refclassid = 'pg_type'::regclass
            union
            select n.oid
            from types o
            join pg_type t on t.oid = o.oid
            cross join lateral (
                select unnest(array[t.typelem, t.typbasetype])
                union all
                select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
                union all
                select r.rngsubtype from pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
            ) as n (oid)
        ), owned as (
            select pg_describe_object(u.refclassid, p.oid, 0) as object, p.proowner as owner
            from used u
            join pg_proc p on p.oid = u.refobjid
            where u.refclassid = 'pg_proc'::regclass
            union all
            select pg_describe_object(u.refclassid, o.oid, 0), w.owner
            from used u
            join pg_operator o on o.oid = u.refobjid
            join pg_proc p on p.oid = o.oprcode
            cross join unnest(array[o.oprowner, p.proowner]) as w (owner)
            where u.refclassid = 'pg_operator'::regclass
            union all
            select pg_describe_object('pg_type'::regclass, t.oid, 0), t.typowner
            from types o
            join pg_type t on t.oid = o.oid
            where t.typtype in ('d', 'c', 'r', 'm') -- of another kind are enums, and types that a superuser has made
        ), called as (
            select p.*
            from pg_proc b
            cross join regexp_matches(b.prosqlbody::text, ':(?:funcid|opfuncid) (\d+)', 'g') as m (number)
            join pg_proc p on p.oid = m.number[1]::oid
            where b.oid = routine
        ), problems (what) as (
            select format('function %s is volatile: it may write, or give another answer each time', c.oid::regprocedure)
            from called c
            where c.provolatile = 'v'
            union all
            select format('role %I of the triggers may not execute function %s: grant execute on function %2$s to %1$I', r.caller, c.oid::regprocedure)
            from called c
            cross join (select coalesce(refuse_routine.caller, current_user) as caller) as r
            where not has_function_privilege(r.caller, c.oid, 'execute')
            union all
            select format('function %s gives another answer if a cast or a view changes', c.oid::regprocedure)
            from called c
            where c.pronamespace = 'pg_catalog'::regnamespace
                and (
                    c.proname ~ '(^pg_input_|_to_xml)'
                    or c.proname ~ '(json|^quote_)'
                        and exists (select from pg_type t where t.oid = any (c.proargtypes) and t.typtype = 'p')
                )
            union all
            select 'a constructor of JSON gives another answer if a cast changes'
            from pg_proc b
            where b.oid = routine and b.prosqlbody::text like '%{JSONCONSTRUCTOREXPR %'
            union all
            select format('%s belongs to %I, who could change what the triggers run', o.object, r.rolname)
            from owned o
            join pg_roles r on r.oid = o.owner
            where not (r.rolsuper or r.rolname = current_user)
        )
        select what from problems order by what limit 1
    );
end
$$;
revoke all on function prescient.refuse_routine(regprocedure, text) from public;
