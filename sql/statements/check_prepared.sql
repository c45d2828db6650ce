-- The name of the transaction that a check has prepared for two-phase commit, by its number.
-- Called by slots.run.rollBackPrepared.
select gid
from pg_prepared_xacts
where transaction = $1::text::xid and database = current_database()
