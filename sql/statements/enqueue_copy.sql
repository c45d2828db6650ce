-- Inserts rows of which none is expected to wait already. It costs half of an insert that looks for
-- waiting keys. A key that waits is a unique violation, and nothing is written.
-- Called by jobs.copier.copyRows.
copy prescient.future_job (
    job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, requested_for, requested_within,
    enqueued_by, enqueued_app, enqueued_actor, enqueued_traceparent
)
from stdin
