-- Resumes a job. It returns no row if the job is not paused. What waits in a slot that a run has left is a misfire now.
-- Called by jobs/admin.Client.Resume.
with resumed as (
    update prescient.job
    set paused_at = null,
        paused_by = null
    where name = $1 and paused_at is not null
    returning job, name
), missed as (
    update prescient.slot_job s
    set missed = true
    from resumed j, prescient.slot_run r
    where s.job = j.job
        and not s.drained
        and r.slot = s.slot
        and r.state = 'open'
        and not exists (select from prescient.slot_claim c where c.slot = s.slot and c.allocated_until >= statement_timestamp())
)
select name from resumed
