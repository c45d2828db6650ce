-- The number of the transaction of a check of many rows; see same_check.
-- Called by slots/internal/txn.Checker.beginning.
select pg_current_xact_id()::xid::text
