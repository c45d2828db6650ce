-- Locks the look at findings, and returns the time. It returns no row if another look has told since $1 had.
-- Called by internal/alert.Config.tell.
select clock_timestamp()
from prescient.alert_look
where told = $1
for update
