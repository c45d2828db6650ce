-- Returns the jobs of a slot that are not paused, and whether they have rows to claim, or were paused while the slot
-- waited: those with the numbers $2 or the names $3, and of the others the first $4 that have. An application may enqueue
-- rows of any number of names.
-- Called by slots/internal/claim.Session.listJobs.
with found as (
    select
        s.job, coalesce(j.name, '#' || s.job) as name, s.planned, not s.drained as claimable, s.missed,
        coalesce(s.job = any ($2::bigint[]) or j.name = any ($3::text[]), false) as known
    from prescient.slot_job s
    left join prescient.job j on j.job = s.job
    where s.slot = $1 and j.paused_at is null
), other as (
    select f.job, f.name, f.planned, f.claimable, f.missed
    from found f
    where not f.known and f.claimable
    order by f.job
    limit $4
)
select f.job, f.name, f.planned, f.claimable, f.missed
from found f
where f.known
union all
select o.job, o.name, o.planned, o.claimable, o.missed
from other o
order by planned, job
