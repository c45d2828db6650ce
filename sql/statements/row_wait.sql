-- Waits for the lock of a row.
-- Called by slots/internal/record.Recorder.lockFree.
select id
from prescient.future_job
where next_check_at = $1 and job = $2 and id = $3
for update
