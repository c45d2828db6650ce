-- Counts a look at findings that has told. Before it $1 had.
-- Called by internal/alert.Config.tell.
update prescient.alert_look
set told = told + 1
where told = $1
