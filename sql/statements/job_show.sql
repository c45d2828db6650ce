-- Returns at most $3 waiting checks of one entity, by the natural key.
-- Called by jobs/admin.Client.Show.
select
    id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, next_check_at,
    {{shown}}
from prescient.future_job f
where entity_name = $1 and entity_key = $2 and item_key is not null
order by next_check_at, id
limit $3
