-- Takes rows of which none is expected to wait: at half the cost of an insert that looks for those that do. A key that
-- waits is a unique violation, and nothing is written.
copy prescient.future_job (
    job, entity_name, entity_key, item_key, group_key, first_check_at, next_check_at, payload, asked_for, asked_within,
    enqueued_by, enqueued_app, enqueued_actor, enqueued_trace
)
from stdin
