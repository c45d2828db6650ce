-- Returns the last 1,000 steps that the rules of the jobs $1 have fired for the key $2, in the order in which they fired
-- last: the step, the number of its last repetition, how many before it did not fire, and when the first and the last
-- fired.
-- Called by jobs/admin.Client.addFired.
select l.name, l.step, l.number, l.left_out, l.since, l.first_at, l.fired_at
from (
    select j.name, f.step, f.number, f.number - f.times as left_out, f.since, coalesce(f.first_at, f.fired_at) as first_at, f.fired_at
    from prescient.job j
    join prescient.rule_fired f on f.job = j.job
    where j.name = any ($1::text[]) and f.entity_key = $2
    order by f.fired_at desc, f.step desc
    limit 1000
) as l
order by l.fired_at, l.step
