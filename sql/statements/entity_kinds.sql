-- Returns the first 20 names of entities that have a check with the key $1, waiting or in history. It
-- goes from one name to the next along the indexes, past at most 1,000 names.
-- Called by jobs/admin.Client.Kinds.
with recursive waiting (name, n) as (
    select min(entity_name::text), 1
    from prescient.future_job
    union all
    select (select min(j.entity_name::text) from prescient.future_job j where j.entity_name::text > w.name), w.n + 1
    from waiting w
    where w.name is not null and w.n < 1000
),
ended (name, n) as (
    select min(entity_name::text), 1
    from prescient.future_job_history
    union all
    select (select min(h.entity_name::text) from prescient.future_job_history h where h.entity_name::text > e.name), e.n + 1
    from ended e
    where e.name is not null and e.n < 1000
)
select name
from (
    (
        select w.name
        from waiting w
        where exists (select from prescient.future_job j where j.entity_name = w.name and j.entity_key = $1)
        limit 20
    )
    union
    (
        select e.name
        from ended e
        where exists (select from prescient.future_job_history h where h.entity_name = e.name and h.entity_key = $1)
        limit 20
    )
) as kind
order by name
limit 20
