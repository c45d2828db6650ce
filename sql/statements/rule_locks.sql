-- Reports whether the transaction has locked one of the tables $1 so that nobody else can read it.
-- Called by jobs/rule.page.deferLocked.
select exists (
    select
    from pg_locks l
    join pg_class c on c.oid = l.relation
    join pg_namespace n on n.oid = c.relnamespace
    where l.pid = pg_backend_pid()
        and l.granted
        and l.locktype = 'relation'
        and l.mode = 'AccessExclusiveLock'
        and format('%I.%I', n.nspname, c.relname) = any ($1::text[])
)
