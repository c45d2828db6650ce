-- Returns the paused jobs. A time is a number; see page_read.
-- Called by jobs/admin.Client.Paused.
select name as job_exec, (extract(epoch from paused_at) * 1000000)::bigint as paused_at, paused_by
from prescient.job
where paused_at is not null
order by name
