-- Returns a rule, and makes an apply that changes it wait for the end of the transaction.
-- Called by jobs/rule.checker.lock.
select state, definition
from prescient.lock_rule($1)
