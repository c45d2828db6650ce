-- The key of a row ($1: its slot, $2: its job, $3: its id), how many checks and errors in a row it has had, and if $4 its
-- payload, which the server may be unable to read.
-- Called by slots/internal/record.Recorder.attempts.
select entity_name, entity_key, item_key, check_count, error_count, case when $4 then payload end
from prescient.future_job
where next_check_at = $1 and job = $2 and id = $3
