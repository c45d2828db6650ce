-- Returns the names of up to $1 jobs. A job is there once a check of it was enqueued.
-- Called by jobs/admin.Client.JobNames.
select name
from prescient.job
order by name
limit $1
