-- Returns the first slot that has not begun, and the caller, in the form of the columns of
-- future_job. It reads no table: Citus would send it to a worker, where the session is another.
-- Called by jobs.copier.nextSlot.
select
    prescient.due_slot(timestamptz '1970-01-01 00:00:00+00', $1) as slot,
    coalesce(nullif(current_setting('role'), 'none'), session_user) as enqueued_by,
    nullif(current_setting('application_name'), '') as enqueued_app,
    left(nullif(current_setting('prescient_caller.actor', true), ''), 500) as enqueued_actor,
    left(nullif(current_setting('prescient_caller.traceparent', true), ''), 500) as enqueued_traceparent
