-- Returns the triggers with names ($2) that a table ($1) has, with their functions, which are in a schema ($3). Triggers that do
-- not fire for applications do not count. behind: the trigger of a partition was made or changed by itself, see rule_faults. reads: the columns of the table that
-- the condition of an update compares, which are those that the rule reads; null without the function of a row ($4).
-- Called by internal/rulestore.Store.find.
select
    t.tgname::text as name, p.prosrc as body, encode(t.tgargs, 'hex') as argument, p.prosecdef as definer,
    exists (
        select
        from pg_partition_tree(t.tgrelid) as part
        join pg_trigger k on k.tgrelid = part.relid and k.tgfoid = t.tgfoid
        join pg_attribute a on a.attrelid = part.relid and a.attname = 'tableoid'
        where part.isleaf and k.xmin <> t.xmin and k.xmin <> a.xmin
    ) as behind,
    (
        select array_agg('"' || replace(a.attname, '"', '""') || '"' order by a.attnum)
        from pg_attribute a
        where a.attrelid = t.tgrelid
            and exists (select from pg_proc f where f.pronamespace = n.oid and f.proname = $4)
            and exists (
                select
                from pg_trigger u
                join pg_depend d on d.classid = 'pg_trigger'::regclass and d.objid = u.oid
                where u.tgrelid = t.tgrelid and u.tgname = any ($2) and u.tgqual is not null
                    and d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum
            )
    ) as reads
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = to_regclass($1)
    and t.tgname = any ($2::text[])
    and t.tgenabled in ('O', 'A')
    and p.proname = t.tgname
    and n.nspname = $3
