-- Returns the newest $1 times of the last $2 seconds at which a step that publishes an event has fired, the newest
-- first. Of a step that repeats it has the last time. The event and the entity are those of the rule as it is now; a step that the rule has no more is left out.
-- The key is the one that the event has.
-- Called by jobs/rule/rulestore.Store.lastFired.
with rules as materialized ( -- each definition is parsed once
    select j.job, r.name, r.definition #>> '{rule,entity}' as entity, e.steps, e.events
    from prescient.rule r
    join prescient.job j on j.name = r.name
    cross join lateral (
        select array_agg(s.name) as steps, json_object_agg(s.name, s.event) as events
        from (
            select s.step ->> 'name', s.step ->> 'event'
            from json_array_elements(r.definition #> '{rule,steps}') as s (step)
            union all
            select 'recovered', r.definition #>> '{rule,recovered,event}' -- see rule.RecoveredStep in Go
        ) as s (name, event)
        where s.event <> ''
    ) as e
)
select n.fired_at, n.name, n.entity, n.entity_key, n.since, n.step, n.number, n.events ->> n.step as event
from (
    select f.fired_at, r.name, r.entity, f.entity_key, f.since, f.step, f.number, r.events
    from (
        select f.job, f.fired_at, coalesce(f.key_then, f.entity_key) as entity_key, f.since, f.step, f.number
        from prescient.rule_fired f
        where f.fired_at >= now() - make_interval(secs => $2)
        offset 0 -- by time, not by the key of each rule
    ) as f
    join rules r on r.job = f.job
    where f.step = any (r.steps)
    order by f.fired_at desc, r.name desc, f.entity_key desc, f.since desc, f.step desc
    limit $1
) as n
order by n.fired_at desc, n.name desc, n.entity_key desc, n.since desc, n.step desc
