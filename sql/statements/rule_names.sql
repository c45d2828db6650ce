-- Returns the names of the rules that were applied.
-- Called by slots/ledger.Ledger.Rules.
select name
from prescient.rule
order by name
