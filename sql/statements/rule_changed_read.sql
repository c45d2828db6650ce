-- Returns when the columns of the keys $2 have changed that since of the rule $1 names.
-- Called by jobs/rule.page.readChanged.
select entity_key, changed_at
from prescient.rule_changed
where job = prescient.find_job($1) and entity_key = any ($2::text[])
