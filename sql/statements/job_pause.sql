-- Returns no row when the job is paused already.
insert into prescient.paused_job (job_exec)
values ($1)
on conflict (job_exec) do nothing
returning job_exec
