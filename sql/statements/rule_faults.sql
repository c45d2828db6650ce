-- Returns the rules whose triggers cannot do their work, with what is wrong. $1 and $2 have the name of each trigger with its
-- rule, $3 the functions of schema $4 that triggers call, and $5 the role that owns the triggers' functions if roles were made.
-- Rules that are being removed do not count.
-- Called by jobs/rule/rulestore.Store.Faults.
with wanted as (
    select r.name, r.relation, r.definition, c.oid as relid, c.trusted, w.triggers
    from prescient.rule r
    join (
        select u.rule, array_agg(u.trigger) as triggers
        from unnest($1::text[], $2::text[]) as u (rule, trigger)
        group by u.rule
    ) as w on w.rule = r.name
    left join (
        select c.oid, array[n.nspname::text, c.relname::text] as relation, o.rolsuper as trusted
        from pg_class c
        join pg_roles o on o.oid = c.relowner
        join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p')
    ) as c on c.relation = parse_ident(r.relation) -- whose quotes depend on a setting of the session
    where r.state <> 'removing'
),
found as (
    select
        w.name,
        w.relation,
        w.relid is null as gone,
        coalesce((
            select min(format('%I.%I', n.nspname, c.relname))
            from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_class c on c.oid = t.tgrelid
            join pg_namespace n on n.oid = c.relnamespace
            where w.relid is null and t.tgname = any (w.triggers) and not c.relispartition
                and (k.name is null or pg_get_userbyid(p.proowner) = k.name)
        ), '') as moved,
        array(
            select u.trigger
            from unnest(w.triggers) as u (trigger)
            where w.relid is not null and not exists (select from pg_trigger t where t.tgrelid = w.relid and t.tgname = u.trigger)
            order by 1
        ) as missing,
        array(
            select t.tgname::text
            from pg_trigger t
            where t.tgrelid = w.relid and t.tgname = any (w.triggers) and t.tgenabled not in ('O', 'A')
            order by 1
        ) as off,
        array(
            select k.name
            from json_array_elements_text(w.definition -> 'reads') as k (name)
            where w.relid is not null
                and not exists (
                    select
                    from pg_attribute a
                    where a.attrelid = w.relid and not a.attisdropped and '"' || replace(a.attname, '"', '""') || '"' = k.name
                )
        ) as columns,
        coalesce((
            select min(o.rolname)
            from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_roles o on o.oid = p.proowner
            where t.tgrelid = w.relid and t.tgname = any (w.triggers)
                and (
                    not has_schema_privilege(o.oid, $4::text, 'usage')
                    or exists (
                        select
                        from unnest($3::text[]) as f (routine)
                        where not has_function_privilege(o.oid, to_regprocedure(format('%I.%s', $4::text, f.routine)), 'execute')
                    )
                )
        ), '')::text as refused,
        coalesce((
            select min(o.rolname)
            from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_roles o on o.oid = p.proowner
            where t.tgrelid = w.relid and t.tgname = any (w.triggers) and (o.rolname <> k.name or o.rolsuper and not w.trusted and k.name is null)
        ), '')::text as owner,
        array(
            select format('alter function %I.%I() owner to %I', n.nspname, p.proname, k.name)
            from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_namespace n on n.oid = p.pronamespace
            where t.tgrelid = w.relid and t.tgname = any (w.triggers) and pg_get_userbyid(p.proowner) <> k.name
            order by 1
        ) as gives
    from wanted w
    left join (
        select r.rolname as name
        from pg_roles r
        where r.rolname = $5
            and exists (
                select
                from unnest($3::text[]) as f (routine)
                where has_function_privilege(r.oid, to_regprocedure(format('%I.%s', $4::text, f.routine)), 'execute')
            )
    ) as k on true
)
select name, relation, gone, moved, missing, off, columns, refused, owner, gives
from found
where gone or missing <> '{}' or off <> '{}' or columns <> '{}' or refused <> '' or owner <> ''
order by name
