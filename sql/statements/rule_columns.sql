-- Returns the columns of a table ($1): whether the value may be null, whether it alone identifies a row, and whether its
-- text is the same in each session.
-- Called by jobs/rule/rulestore.resolver.findTable.
select
    a.attname::text as name,
    a.attnum as number,
    format_type(a.atttypid, a.atttypmod) as type,
    a.attnotnull as required,
    exists (
        select
        from pg_index i
        where i.indrelid = a.attrelid
            and i.indisunique
            and i.indisvalid
            and i.indimmediate
            and i.indnkeyatts = 1
            and i.indkey[0] = a.attnum
            and i.indpred is null
    ) as identifies,
    o.provolatile = 'i' and t.typname not in ('float4', 'float8', 'bytea') as steady
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
join pg_proc o on o.oid = b.typoutput
where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum
