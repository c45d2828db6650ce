-- Returns no row when the job is not paused.
delete from prescient.paused_job
where job_exec = $1
returning job_exec
