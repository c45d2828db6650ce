-- The names of the jobs of claims in a slot ($1) whose lease has ended.
-- Called by slots/internal/claim.Session.Orphans.
select distinct j.name
from prescient.slot_claim c
join prescient.job j on j.job = any (c.jobs)
where c.slot = $1 and c.allocated_until < statement_timestamp()
order by j.name
