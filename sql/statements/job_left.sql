-- Returns the jobs that have rows in open slots, with the first of these slots, if it is one of $1 or after $2. It jumps
-- from job to job of a slot.
-- Called by cmd/internal/runcmd.newsOfRun.
select j.name
from (
    select n.job, min(r.slot) as slot
    from prescient.slot_run r
    cross join lateral prescient.jobs_in_slot(r.slot) as n (job)
    where r.state = 'open'
    group by n.job
) as first
join prescient.job j on j.job = first.job
where first.slot = any ($1::timestamptz[]) or first.slot > $2
