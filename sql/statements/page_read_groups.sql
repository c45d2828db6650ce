-- Rows of jobs ($3) that are checked by group, in the order of their groups after group $4. The sort is over the rows
-- of one shard of one slot. See page_read for the columns.
select
    shard, id, job_exec, entity_name, entity_key, item_key, group_key, nullif(first_check_at, next_check_at) as first_check_at,
    check_count, error_count, last_error, nullif((date_part('epoch', spent) * 1000000)::bigint, 0) as spent, payload,
    (date_part('epoch', enqueued_at) * 1000000)::bigint as enqueued_at, enqueued_by
from prescient.future_job
where next_check_at = $1
    and shard = $2
    and job_exec = any ($3::text[])
    and job_exec <> all (array(select job_exec from prescient.paused_job))
    and coalesce(group_key, entity_name || chr(31) || entity_key) collate "C" > $4
order by coalesce(group_key, entity_name || chr(31) || entity_key) collate "C", id
limit $5
