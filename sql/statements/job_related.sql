-- Returns the waiting rows of an entity ($1, $2) by the natural key, or of a group ($3; null:
-- none), due or not.
-- Called by jobs.Client.Related.
select
    f.id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, f.entity_name, f.entity_key,
    coalesce(f.item_key, '') as item_key, f.item_key is null as anonymous, coalesce(f.group_key, '') as group_key,
    f.first_check_at, f.next_check_at, f.check_count, f.error_count, coalesce(f.last_error, '') as last_error,
    (extract(epoch from f.spent) * 1000000)::bigint as spent, f.payload, f.enqueued_at, f.enqueued_by
from (
    select e.*
    from prescient.future_job e
    where e.entity_name = $1 and e.entity_key = $2 and e.item_key is not null
    union all
    select g.*
    from prescient.future_job g
    where g.group_key = $3 and (g.entity_name, g.entity_key, g.item_key is null) is distinct from ($1, $2, false)
) as f
order by f.next_check_at, f.id
