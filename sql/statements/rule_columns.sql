-- Returns the columns of a table ($1): whether the value may be null, and whether its text is the same in each session
-- with the settings of rules, and for ever. declared: the type without a length, with the collation of the column
-- if it has one of its own. base: the type without domains, as SQL that is read alike with any search_path. own:
-- PostgreSQL has it itself. virtual: the expression of a column that has no stored value; null if it has.
-- Called by internal/rulestore.resolver.findTable.
select
    a.attname::text as name,
    a.attnum as number,
    format_type(a.atttypid, a.atttypmod) as type,
    a.attnotnull as required,
    (
        select
            case when m.nspname = 'pg_catalog' then format_type(y.oid, -1) else format('%I.%I', m.nspname, y.typname) end || coalesce((
                select format(' collate %I.%I', h.nspname, l.collname)
                from pg_collation l
                join pg_namespace h on h.oid = l.collnamespace
                where l.oid = a.attcollation and l.oid <> y.typcollation
            ), '')
        from pg_type y
        join pg_namespace m on m.oid = y.typnamespace
        where y.oid = a.atttypid
    ) as declared,
    case
        when n.nspname = 'pg_catalog' then format_type(b.oid, d.mod)
        else format('%I.%I', n.nspname, b.typname)
    end as base,
    n.nspname = 'pg_catalog' as own,
    b.typtype = 'e' as enum,
    b.typname in ('date', 'timestamp', 'timestamptz')
        or o.provolatile = 'i' and b.typname not in ('float4', 'float8', 'bytea') as steady,
    case when a.attgenerated = 'v' then (
        select pg_get_expr(v.adbin, v.adrelid)
        from pg_attrdef v
        where v.adrelid = a.attrelid and v.adnum = a.attnum
    ) end as virtual
from pg_attribute a
cross join lateral (
    with recursive down as (
        select t.oid, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod as mod
        from pg_type t
        where t.oid = a.atttypid
        union all
        select t.oid, t.typtype, t.typbasetype, t.typtypmod, w.typtypmod
        from down w
        join pg_type t on t.oid = w.typbasetype
        where w.typtype = 'd'
    )
    select w.oid, w.mod from down w where w.typtype <> 'd'
) as d
join pg_type b on b.oid = d.oid
join pg_namespace n on n.oid = b.typnamespace
join pg_proc o on o.oid = b.typoutput
where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum
