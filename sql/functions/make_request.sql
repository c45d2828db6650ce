-- Returns a request as a value, with the caller.
-- Called by enqueue_slowly, push_back_row and rule_wait.
create or replace function prescient.make_request(
    check_at    timestamptz,
    within      integer,
    payload     jsonb,
    group_key   text,
    on_conflict text,
    max_wait    interval,
    unless_ended_within integer
)
returns prescient.request
language sql
as $$
    select row(
        check_at, within, payload, group_key, on_conflict, max_wait, clock_timestamp(),
        -- The role of the caller, also in a function that runs with the owner's rights.
        coalesce(nullif(current_setting('role'), 'none'), session_user),
        nullif(current_setting('application_name'), ''),
        left(nullif(current_setting('prescient_caller.actor', true), ''), 500),
        left(nullif(current_setting('prescient_caller.traceparent', true), ''), 500),
        unless_ended_within
    )::prescient.request
$$;
