-- The rows of a claim that cannot be read, and why: see page_read for the parameters.
-- Called by slots/internal/record.Recorder.RecordUnreadable.
select id, job, problem
from prescient.unreadable_rows($1, $2::bigint[], $3, $4)
