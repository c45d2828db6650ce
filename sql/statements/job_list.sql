-- Returns waiting checks by slot. A filter by entity uses an index. Other filters read the slots
-- from $3 to $4.
-- Called by jobs/admin.Client.List.
select
    id, coalesce((select j.name from prescient.job j where j.job = f.job), '#' || f.job) as job_exec, entity_name, entity_key, coalesce(item_key, '') as item_key, item_key is null as anonymous,
    coalesce(group_key, '') as group_key, first_check_at, next_check_at, check_count, error_count,
    coalesce(last_error, '') as last_error, (extract(epoch from spent) * 1000000)::bigint as spent, payload,
    enqueued_at, enqueued_by
from prescient.future_job f
where next_check_at >= $3
    and next_check_at < $4
    and ($1::text is null or job = prescient.find_job($1))
    and ($2::text is null or entity_name = $2)
    and ($7::text is null or entity_key = $7)
order by next_check_at, job, id
limit $5
offset $6
