-- Takes the lock of a group if it is free. See the function lock_group.
-- Called by slots/internal/txn.Checker.lockGroup.
select pg_try_advisory_xact_lock(hashtextextended('prescient.group ' || $1, 0))
