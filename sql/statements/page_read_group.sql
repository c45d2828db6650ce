-- All rows of group $4 of jobs ($3) that are checked by group.
select
    id, job_exec, entity_name, entity_key, coalesce(item_key, '') as item_key, item_key is null as anonymous,
    coalesce(group_key, '') as group_key, first_check_at, next_check_at, check_count,
    error_count, coalesce(last_error, '') as last_error,
    (extract(epoch from spent) * 1000000)::bigint as spent, payload, enqueued_at, enqueued_by
from prescient.future_job
where next_check_at = $1
    and shard = $2
    and job_exec = any ($3::text[])
    and job_exec <> all (array(select job_exec from prescient.paused_job))
    and coalesce(group_key, entity_name || chr(31) || entity_key) = $4
order by id
