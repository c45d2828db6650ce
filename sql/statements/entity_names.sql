-- Returns the first $2 names of entities that begin with $1 and have a check, waiting or in history. It
-- goes from one name to the next along the indexes.
-- Called by jobs/admin.Client.EntityNames.
with recursive waiting (name, n) as (
    select min(entity_name::text), 1
    from prescient.future_job
    where entity_name::text >= $1::text
    union all
    select (select min(j.entity_name::text) from prescient.future_job j where j.entity_name::text > w.name), w.n + 1
    from waiting w
    where starts_with(w.name, $1::text) and w.n <= $2::integer
),
ended (name, n) as (
    select min(entity_name::text), 1
    from prescient.future_job_history
    where entity_name::text >= $1::text
    union all
    select (select min(h.entity_name::text) from prescient.future_job_history h where h.entity_name::text > e.name), e.n + 1
    from ended e
    where starts_with(e.name, $1::text) and e.n <= $2::integer
)
select name
from (select name from waiting union select name from ended) as kind
where starts_with(name, $1::text)
order by name
limit $2
