-- Returns the waiting rows of an entity ($1, $2) by the natural key, or of a group ($3; null:
-- none), due or not.
-- Called by jobs.Client.Related.
select
    id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, next_check_at,
    {{shown}}
from (
    select e.*
    from prescient.future_job e
    where e.entity_name = $1 and e.entity_key = $2 and e.item_key is not null
    union all
    select g.*
    from prescient.future_job g
    where g.group_key = $3 and (g.entity_name, g.entity_key, g.item_key is null) is distinct from ($1, $2, false)
) as f
order by next_check_at, id
