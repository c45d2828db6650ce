-- Counts a look at findings that tells, keeps others from telling until the transaction ends, and returns the time. It
-- returns no row if another look has told since $1 had.
-- Called by internal/alert.Config.tell.
update prescient.alert_look
set told = told + 1
where told = $1
returning statement_timestamp()
