-- Returns the jobs of a slot that are not paused, and whether they have rows to claim.
-- Called by slots/internal/claim.Session.listJobs.
select s.job, coalesce(j.name, '#' || s.job) as name, s.planned, not s.drained as claimable
from prescient.slot_job s
left join prescient.job j on j.job = s.job
where s.slot = $1 and j.paused_at is null
order by s.planned, s.job
