-- Returns a rule with the width of slots in seconds, and makes an apply that changes it wait for the end of the transaction.
-- Called by internal/rule.checker.lock.
select state, definition, created_at, (select extract(epoch from width)::bigint from prescient.setting), horizon
from prescient.lock_rule($1, $2)
