-- Marks the transaction of a check of many rows, and returns its number.
select pg_current_xact_id()::xid::text, set_config('prescient_check.mark', $1, true)
