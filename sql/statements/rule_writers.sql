-- Reports whether a transaction is open that has written to one of the tables $1 and that began before a runner opened a
-- slot, with the transaction number $2. Such a transaction holds a lock on the table, or on a partition.
-- Called by internal/rule.page.read.
with held as materialized (
    select l.locktype, l.database, l.relation, l.transactionid, l.virtualtransaction, l.mode
    from pg_locks l
    where l.granted and l.locktype in ('relation', 'transactionid')
)
select exists (
    select
    from held w
    join held x on x.virtualtransaction = w.virtualtransaction and x.locktype = 'transactionid' and x.mode = 'ExclusiveLock'
    where w.locktype = 'relation'
        and w.mode = 'RowExclusiveLock'
        and w.database = (select d.oid from pg_database d where d.datname = current_database())
        and exists (
            select
            from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where c.oid in (select w.relation union all select p.relid from pg_partition_ancestors(w.relation) as p)
                and array[n.nspname::text, c.relname::text] in (select parse_ident(u.relation) from unnest($1::text[]) as u (relation))
        )
        and age(x.transactionid) > age($2::xid8::xid)
)
