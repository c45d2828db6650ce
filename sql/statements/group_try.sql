-- Takes the lock of a group, unless somebody else has it. See lock_group.
select pg_try_advisory_xact_lock(hashtextextended('prescient.group ' || $1, 0))
