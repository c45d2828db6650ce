-- Returns the last 1,000 times at which the rules of the jobs $1 have fired a step for the key $2, in the order
-- in which they fired: the step, the number of the repetition, and how many before it did not fire.
-- Called by jobs/admin.Client.addFired.
select l.name, l.step, l.number, l.left_out, l.since, l.fired_at
from (
    select n.name, n.step, n.number, n.since, n.fired_at,
        n.number - 1 - lag(n.number, 1, 0) over (partition by n.name, n.step, n.since order by n.number) as left_out
    from (
        select j.name, f.since, f.fired_at, regexp_replace(f.step, '#[0-9]+$', '') as step,
            coalesce(substring(f.step from '#([0-9]{1,9})$')::int, 1) as number
        from prescient.job j
        join prescient.rule_fired f on f.job = j.job
        where j.name = any ($1::text[]) and f.entity_key = $2
    ) as n
    order by n.fired_at desc, n.step desc
    limit 1000
) as l
order by l.fired_at, l.step
