-- Begins the transaction of a check of one row, which is a literal of the type row_check.
-- Called by slots/internal/txn.Checker.beginningRow.
select prescient.begin_check($1)
