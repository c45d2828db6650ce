-- Locks the look at findings of a process (token $1), and returns the time. It returns no row if another one has looked
-- since.
-- Called by internal/alert.Config.tell.
select clock_timestamp()
from prescient.alert_look
where token = $1
for update
