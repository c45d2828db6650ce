-- The rows of a claim that are still in its slot ($1): of jobs ($2), from one id ($3) to another ($4).
-- Columns are half of what reading a row costs, on both sides: what the reader knows, or nearly always is zero, is null. Times are
-- numbers: what a time is as a text is for the role that reads it to say.
select
    id, job, entity_name, entity_key, item_key, group_key,
    (date_part('epoch', nullif(first_check_at, next_check_at)) * 1000000)::bigint as first_check_at, check_count, error_count,
    last_error, nullif((date_part('epoch', spent) * 1000000)::bigint, 0) as spent, payload,
    (date_part('epoch', enqueued_at) * 1000000)::bigint as enqueued_at, enqueued_by, enqueued_trace
from prescient.future_job
where next_check_at = $1
    and job = any ($2::bigint[])
    and id between $3 and $4
