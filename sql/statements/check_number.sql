-- The number of the transaction of a check of many rows, as pg_prepared_xacts has it.
-- Called by slots.round.beginning.
select pg_current_xact_id()::xid::text
