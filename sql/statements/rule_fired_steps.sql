-- Counts what a rule ($1) has fired, by step: how often, its repetitions included, and how
-- many of its events are dead letters. PostgreSQL takes no text out of JSON that has a text such as \u0000. No name of a
-- rule or a step has one.
-- Called by internal/rulestore.Store.Fired.
select f.step, f.fired, f.last_at, coalesce(d.n, 0) as dead_letters
from (
    select f.step, sum(f.times) as fired, max(f.fired_at) as last_at
    from prescient.rule_fired f
    where f.job = (select prescient.find_job($1))
    group by 1
) as f
left join (
    select l.data ->> 'step' as step, count(*) as n
    from (
        select regexp_replace(d.data::text, E'\\\\u(0000|d[89a-f][0-9a-f]{2})', E'\\\\ufffd', 'gi')::json as data
        from prescient.event_dead d
        where d.dead_at is not null
    ) as l
    where l.data ->> 'rule' = $1
    group by 1
) as d on d.step = f.step
order by f.step
