-- Returns the rules whose triggers cannot do their work, with what is wrong. $1, $2 and $6 have the name of each trigger with
-- its rule, and with the function that says what a row means. $3 has the functions of schema $4 that triggers call. $5 is the
-- schema of triggers' functions.
-- Rules that are being removed do not count.
-- attached: the partitions whose rows of before do not wait. PostgreSQL makes the triggers of a partition in the transaction
-- that makes those of the table, or in the one that makes the partition. Those of another transaction are of a table that was
-- attached, or were disabled and enabled alone.
-- loose: what alter table must do for the key to identify a row alone again.
-- parent: the table of which this one is a partition. children: those that inherit from it.
-- Called by internal/rulestore.Store.Faults.
with wanted as (
    select r.name, r.relation, r.definition, c.oid as relid, w.triggers, w.function
    from prescient.rule r
    join (
        select u.rule, array_agg(u.trigger) as triggers, min(u.function) as function
        from unnest($1::text[], $2::text[], $6::text[]) as u (rule, trigger, function)
        group by u.rule
    ) as w on w.rule = r.name
    left join (
        select c.oid, array[n.nspname::text, c.relname::text] as relation
        from pg_class c
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
            join pg_namespace f on f.oid = p.pronamespace
            where w.relid is null and t.tgname = any (w.triggers) and not c.relispartition and f.nspname = $5
        ), '') as moved,
        array(
            select u.trigger
            from unnest(w.triggers) as u (trigger)
            where w.relid is not null and not exists (select from pg_trigger t where t.tgrelid = w.relid and t.tgname = u.trigger)
            order by 1
        ) as missing,
        exists (select from pg_trigger t where t.tgrelid = w.relid and t.tgname = any (w.triggers))
            and not exists (
                select
                from pg_proc p
                join pg_namespace n on n.oid = p.pronamespace
                where n.nspname = $5 and p.proname = w.function
            ) as broken,
        array(
            select t.tgname::text
            from pg_trigger t
            where t.tgrelid = w.relid and t.tgname = any (w.triggers) and t.tgenabled not in ('O', 'A')
            order by 1
        ) as off,
        array(
            select k.name
            from (
                select json_array_elements_text(w.definition -> 'reads')
                union
                select json_array_elements_text(w.definition -> 'payload')
            ) as k (name)
            where w.relid is not null
                and not exists (
                    select
                    from pg_attribute a
                    where a.attrelid = w.relid and not a.attisdropped and '"' || replace(a.attname, '"', '""') || '"' = k.name
                )
            order by 1
        ) as columns,
        array(
            select k.name
            from json_array_elements_text(w.definition -> 'reads') as k (name)
            join pg_attribute a on a.attrelid = w.relid and not a.attisdropped and '"' || replace(a.attname, '"', '""') || '"' = k.name
            join pg_trigger t on t.tgrelid = w.relid and t.tgname = any (w.triggers) and t.tgqual is not null
            where not exists (
                select
                from pg_depend d
                where d.classid = 'pg_trigger'::regclass and d.objid = t.oid
                    and d.refclassid = 'pg_class'::regclass and d.refobjid = w.relid and d.refobjsubid = a.attnum
            )
        ) as swapped,
        coalesce((
            select array_remove(k.nullable || case
                when not exists (
                    select
                    from pg_index i
                    where i.indrelid = w.relid and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null
                        and (i.indkey::int2[])[0:i.indnkeyatts - 1] = k.numbers
                ) then format('add unique (%s)', k.names)
            end, null)
            from (
                select
                    array_agg(case when not a.attnotnull then format('alter column %I set not null', a.attname) end order by k.nth) as nullable,
                    array_agg(a.attnum order by k.nth) as numbers,
                    string_agg(quote_ident(a.attname), ', ' order by k.nth) as names,
                    count(*) = count(a.attnum) as known
                from json_array_elements_text(
                    case json_typeof(w.definition -> 'key') when 'array' then w.definition -> 'key' else json_build_array(w.definition -> 'key') end
                ) with ordinality as k (name, nth)
                left join pg_attribute a on a.attrelid = w.relid and not a.attisdropped and '"' || replace(a.attname, '"', '""') || '"' = k.name
            ) as k
            where k.known
        ), '{}') as loose,
        array(
            select distinct format('%I.%I', n.nspname, c.relname)
            from pg_trigger t
            cross join pg_partition_tree(t.tgrelid) as part
            join pg_trigger k on k.tgrelid = part.relid and k.tgfoid = t.tgfoid
            join pg_attribute a on a.attrelid = part.relid and a.attname = 'tableoid'
            join pg_class c on c.oid = part.relid
            join pg_namespace n on n.oid = c.relnamespace
            where t.tgrelid = w.relid and t.tgname = any (w.triggers) and part.isleaf and k.xmin <> t.xmin and k.xmin <> a.xmin
            order by 1
        ) as attached,
        coalesce((
            select format('%I.%I', n.nspname, c.relname)
            from pg_inherits i
            join pg_class part on part.oid = i.inhrelid and part.relispartition
            join pg_class c on c.oid = i.inhparent
            join pg_namespace n on n.oid = c.relnamespace
            where i.inhrelid = w.relid
        ), '') as parent,
        array(
            select format('%I.%I', n.nspname, c.relname)
            from pg_inherits i
            join pg_class c on c.oid = i.inhrelid and not c.relispartition
            join pg_namespace n on n.oid = c.relnamespace
            where i.inhparent = w.relid
            order by 1
        ) as children,
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
        ), '')::text as refused
    from wanted w
)
select name, relation, gone, moved, missing, broken, off, columns, swapped, loose, attached, parent, children, refused
from found
where gone or broken or missing <> '{}' or off <> '{}' or columns <> '{}' or swapped <> '{}' or loose <> '{}' or attached <> '{}' or parent <> '' or children <> '{}' or refused <> ''
order by name
