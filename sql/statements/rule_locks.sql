-- Returns whether the transaction has locked a table so that nobody else can read it.
-- Called by jobs/rule.page.deferLocked.
select exists (
    select
    from pg_catalog.pg_locks
    where pid = pg_catalog.pg_backend_pid() and locktype = 'relation' and mode = 'AccessExclusiveLock' and granted
)
