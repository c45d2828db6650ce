-- Returns the steps of the rule $1 that have fired for the keys $2.
-- Called by jobs/rule.page.remember.
select entity_key, since, step
from prescient.rule_fired
where job = prescient.find_job($1) and entity_key = any ($2::text[])
