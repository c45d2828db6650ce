-- Reads the rows of a claim that are still in slot $1: of the jobs $2, with ids from $3 to $4.
-- Columns are half of the cost of reading a row, on both sides. So a column is null if the reader
-- knows the value, or if it is nearly always zero. Times are numbers, because the role of the
-- reader decides how a time looks as a text.
-- Called by slots/internal/page.Reader.Read.
select
    id, job, entity_name, entity_key, item_key, group_key,
    (date_part('epoch', nullif(first_check_at, next_check_at)) * 1000000)::bigint as first_check_at, check_count, error_count,
    last_error, nullif((date_part('epoch', spent) * 1000000)::bigint, 0) as spent, payload,
    (date_part('epoch', enqueued_at) * 1000000)::bigint as enqueued_at, enqueued_by, enqueued_traceparent
from prescient.future_job
where next_check_at = $1
    and job = any ($2::bigint[])
    and id between $3 and $4
