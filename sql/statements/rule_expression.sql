-- Returns an expression as the server understands it, from a view ($1) that has it as its only column and reads one table
-- ($2): its text and type, whether it has a subquery or a stable function of an application, which may read a table, whether it reads a row as a whole, whether it is about several rows, whether it looks
-- the table up itself, an operator that it uses where no schema can be written, the columns of the table that it reads, and the other tables.
-- local and made: the types without a time zone of which it makes an instant, and those that it makes of one, by the time zone of the session.
-- Called by internal/rulestore.resolver.expression.
select
    -- A column that has the name needs none.
    regexp_replace(
        regexp_replace(pg_get_viewdef(v.oid), '^ *SELECT\s+(.*)\s+FROM [^\n]*;$', '\1'), '\s+AS prescient_value\s*$', ''
    ) as text,
    format_type(coalesce(nullif(y.typbasetype, 0), a.atttypid), case when y.typbasetype = 0 then a.atttypmod else y.typtypmod end) as type,
    w.ev_action::text ~ ':hasSubLinks true' or coalesce(own.reads, false) as lookup,
    w.ev_action::text ~ '\{VAR :varno \d+ :varattno 0 ' as whole,
    'true' in (
        substring(w.ev_action::text from ':hasAggs (\w+)'),
        substring(w.ev_action::text from ':hasWindowFuncs (\w+)'),
        substring(w.ev_action::text from ':hasTargetSRFs (\w+)')
    ) as several,
    (
        select count(*) > 1
        from regexp_matches(w.ev_action::text, ':rtekind 0 :relid (\d+)', 'g') as m (number)
        where m.number[1]::oid = $2::oid
    ) as itself,
    (
        -- is distinct from, nullif, case x when, in (select) and join using have no place for the schema of an operator.
        select o.oprname || ' of type ' || format_type(o.oprleft, null)
        from regexp_matches(
            w.ev_action::text,
            '(?:\{(?:DISTINCTEXPR|NULLIFEXPR)|\{SUBLINK :subLinkType 2 :subLinkId \d+ :testexpr \{OPEXPR'
                '|:usingClause \("[^{]*\{OPEXPR) :opno (\d+)|\{OPEXPR :opno (\d+) [^{]*:args \((?:\{RELABELTYPE :arg )?\{CASETESTEXPR',
            'g'
        ) as m (number)
        join pg_operator o on o.oid = coalesce(m.number[1], m.number[2])::oid and o.oprnamespace <> 'pg_catalog'::regnamespace
        limit 1
    ) as unqualified,
    array(
        select d.refobjsubid::bigint
        from pg_depend d
        where d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
            and d.refclassid = 'pg_class'::regclass and d.refobjid = $2::oid and d.refobjsubid > 0
    ) as columns,
    array(
        select distinct format('%I.%I', s.nspname, c.relname)
        from pg_depend d
        join pg_class c on c.oid = d.refobjid and c.relkind in ('r', 'p')
        join pg_namespace s on s.oid = c.relnamespace
        where d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
            and d.refclassid = 'pg_class'::regclass and d.refobjid <> $2::oid
        order by 1
    ) as tables,
    zone.local,
    zone.made
from pg_class v
join pg_rewrite w on w.ev_class = v.oid
join pg_attribute a on a.attrelid = v.oid and a.attnum = 1
join pg_type y on y.oid = a.atttypid
cross join lateral (
    select bool_or(p.provolatile = 's') and not bool_or(p.provolatile = 'v') as reads
    from regexp_matches(w.ev_action::text, ':(?:funcid|opfuncid) (\d+)', 'g') as m (number)
    join pg_proc p on p.oid = m.number[1]::oid and p.pronamespace <> 'pg_catalog'::regnamespace
) as own
cross join lateral (
    -- Functions of PostgreSQL itself, such as casts and comparisons, that take a value of the one kind and one of the other.
    select
        array_agg(distinct format_type(u.type, null)) filter (where u.argument) as local,
        array_agg(distinct format_type(u.type, null)) filter (where not u.argument) as made
    from regexp_matches(w.ev_action::text, ':(?:funcid|opfuncid) (\d+)', 'g') as m (number)
    join pg_proc p on p.oid = m.number[1]::oid and p.pronamespace = 'pg_catalog'::regnamespace and p.provolatile = 's'
    cross join lateral (
        select a.type, true as argument
        from unnest(p.proargtypes::oid[]) as a (type)
        union all
        select p.prorettype, false
    ) as u
    where u.type in ('date'::regtype, 'timestamp'::regtype)
        and 'timestamptz'::regtype in (select a.type from unnest(p.proargtypes::oid[] || p.prorettype) as a (type))
) as zone
where v.oid = $1::regclass
