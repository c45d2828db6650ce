-- Returns the steps of the rule $1 that have fired for the keys $2, each with the number of its last
-- repetition: the second one of a step is recorded as step#2, see rule.Repetition in Go. recovers: the step has fired since
-- the rule has recovered.
-- Called by jobs/rule.page.remember.
select entity_key, since, regexp_replace(step, '#[0-9]+$', '') as step,
    max(coalesce(substring(step from '#([0-9]{1,9})$')::int, 1)) as number,
    coalesce(bool_or(fired_at >= (select r.recovers_at from prescient.rule r where r.name = $1)), false) as recovers
from prescient.rule_fired
where job = (select prescient.find_job($1)) and entity_key = any ($2::text[])
group by 1, 2, 3
