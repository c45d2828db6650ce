-- Reports whether the transaction has locked one of the tables $1, or a partition, so that no other session can read it.
-- Called by internal/rule.page.deferLocked.
select exists (
    select
    from pg_locks l
    where l.pid = pg_backend_pid()
        and l.granted
        and l.locktype = 'relation'
        and l.mode = 'AccessExclusiveLock'
        and exists (
            select
            from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where c.oid in (select l.relation union all select p.relid from pg_partition_ancestors(l.relation) as p)
                and array[n.nspname::text, c.relname::text] in (select parse_ident(u.relation) from unnest($1::text[]) as u (relation))
        )
)
