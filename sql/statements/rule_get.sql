-- Returns the rule with a name ($1), or all rules if it is null. stopped_at: when an apply or a remove of
-- the rule has advanced last, if that is more than 5 minutes ago.
-- Called by internal/rulestore.Store.read.
select
    r.name, r.relation, r.definition::text as definition, r.version, r.state, r.position, r.retimed, r.applied_at, coalesce(r.applied_by, '') as applied_by,
    j.paused_at, coalesce(j.paused_by, '') as paused_by, r.recovers_at,
    case
        when r.state <> 'active' and r.updated_at < clock_timestamp() - interval '5 minutes' then r.updated_at
    end as stopped_at
from prescient.rule r
left join prescient.job j on j.name = r.name
where $1::text is null or r.name = $1
order by r.name
