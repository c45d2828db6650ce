-- One page of shards ($2) of a slot, of each what comes after an id ($3), up to $4 rows. $5: jobs to leave where they
-- are; $6: the only job to take, or null. Rows of neighbouring ids lie in the same pages of the table, whatever their
-- shards: read and recorded together they are found there together.
-- Columns are half of what reading a row costs, on both sides: what the reader knows, or nearly always is zero, is null.
select due.*
from unnest($2::smallint[], $3::bigint[]) as s (shard, after)
cross join lateral (
    select
        f.shard, id, job_exec, entity_name, entity_key, item_key, group_key, nullif(first_check_at, next_check_at) as first_check_at,
        check_count, error_count, last_error, nullif((date_part('epoch', spent) * 1000000)::bigint, 0) as spent, payload,
        (date_part('epoch', enqueued_at) * 1000000)::bigint as enqueued_at, enqueued_by
    from prescient.future_job f
    where next_check_at = $1
        and f.shard = s.shard
        and id > s.after
        and job_exec <> all ($5::text[])
        and ($6::text is null or job_exec = $6)
        and job_exec <> all (array(select job_exec from prescient.paused_job))
    order by id
    limit $4
) as due
