-- Returns when a run last registered a job, to the hour.
-- Called by jobs/admin.Client.ServedAt.
select registered_at
from prescient.job
where name = $1 and registered_at is not null
