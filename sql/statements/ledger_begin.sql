-- Lets the ledger of a replay begin in the past.
update prescient.setting
set since = $1
