select name as job_exec, paused_at, paused_by
from prescient.job
where paused_at is not null
order by name
