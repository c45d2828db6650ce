-- Returns the steps of the rule $1 that have fired for the keys $2, each with the number of its last repetition, and when
-- that was due. recovers: the step has fired since the rule has recovered. left_before: steps before it were left out
-- then. key_then: the key of the row then. The step that fired first comes first.
-- Called by internal/rule.page.remember.
select entity_key, since, coalesce(start, '') as start, step, number, due_at,
    coalesce(fired_at >= (select r.recovers_at from prescient.rule r where r.name = $1), false) as recovers, left_before,
    coalesce(key_then, entity_key) as key_then
from prescient.rule_fired
where job = prescient.find_job($1) and entity_key = any ($2::text[])
order by coalesce(first_at, fired_at), since, step
