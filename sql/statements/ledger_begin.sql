-- Lets the ledger of a replay begin in the past.
-- Called by slots/ledger.Ledger.Begin.
update prescient.setting
set since = $1
