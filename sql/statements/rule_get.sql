-- Returns the rule with a name ($1), or all rules if it is null, with the checks that wait.
-- Called by jobs/rule/rulestore.Store.read.
select
    r.name, r.relation, r.definition::text as definition, r.version, r.state, r.position, r.applied_at, coalesce(r.applied_by, '') as applied_by,
    j.paused_at, coalesce(j.paused_by, '') as paused_by
from prescient.rule r
left join prescient.job j on j.name = r.name
where $1::text is null or r.name = $1
order by r.name
