-- Resumes a job. It returns no row if the job is not paused.
-- Called by jobs/admin.Client.Resume.
update prescient.job
set paused_at = null,
    paused_by = null
where name = $1 and paused_at is not null
returning name
