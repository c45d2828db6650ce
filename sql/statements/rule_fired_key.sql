-- Returns the steps that the rules of the jobs $1 have fired for the key $2, in the order in which they
-- fired.
-- Called by jobs/admin.Client.addFired.
select j.name, f.step, f.since, f.fired_at
from prescient.job j
join prescient.rule_fired f on f.job = j.job
where j.name = any ($1::text[]) and f.entity_key = $2
order by f.fired_at, f.step
