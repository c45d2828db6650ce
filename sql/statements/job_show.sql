-- Returns at most $3 waiting checks of one entity, by the natural key.
-- Called by jobs/admin.Client.Show.
select
    id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, entity_name, entity_key, coalesce(item_key, '') as item_key, item_key is null as anonymous,
    coalesce(group_key, '') as group_key, first_check_at, next_check_at, check_count, error_count,
    coalesce(last_error, '') as last_error, (extract(epoch from spent) * 1000000)::bigint as spent, payload,
    enqueued_at, enqueued_by
from prescient.future_job f
where entity_name = $1 and entity_key = $2 and item_key is not null
order by next_check_at, id
limit $3
