select job_exec, paused_at, paused_by
from prescient.paused_job
order by job_exec
