-- Inserts rows of which none is expected to wait already. It costs half of an insert that looks for
-- waiting keys. A key that waits is a unique violation, and nothing is written.
-- Called by jobs.copier.copyRows.
copy prescient.future_job (
    {{enqueued}}
)
from stdin
