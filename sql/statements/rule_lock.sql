-- Returns a rule with the width of slots in seconds, and makes an apply that changes it wait for the end of the transaction.
-- Called by internal/rule.checker.lock.
select state, definition, created_at, width, horizon
from prescient.lock_rule($1, $2)
