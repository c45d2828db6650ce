-- One page of a shard of a slot. $5: jobs to leave where they are; $6: the only job to take, or null.
select
    id, job_exec, entity_name, entity_key, coalesce(item_key, '') as item_key, item_key is null as anonymous,
    coalesce(group_key, '') as group_key, first_check_at, next_check_at, check_count,
    error_count, coalesce(last_error, '') as last_error,
    (extract(epoch from spent) * 1000000)::bigint as spent, payload, enqueued_at, enqueued_by
from prescient.future_job
where next_check_at = $1
    and shard = $2
    and id > $3
    and job_exec <> all ($5::text[])
    and ($6::text is null or job_exec = $6)
    and job_exec <> all (array(select job_exec from prescient.paused_job))
order by id
limit $4
