-- The trace of a row is what has happened to it since it was enqueued, oldest first: a line of JSON for each check that
-- did not end it, and for each change. Somebody's change is an object: what (rescheduled, pushed_back, recorded,
-- honoured, width, retried, moved, cancelled, replaced), at in milliseconds, slot (the one that the row was in) in
-- seconds since 1970, by, app and actor; of moved, the stores from and to; of recorded, for is the instant that was
-- asked for, in seconds since 1970. honoured is the first entry of a row that came of a request: slot is that of the
-- row that had the request, and by the runner. What a run did is an array, which is shorter: what (next, retry,
-- deferred), slot, run, and of a check how late it was in milliseconds, how long it took in microseconds, and its
-- error; of what was not checked, when. A check without an error that asked for another leaves 12 characters instead:
-- see trace_check.
create or replace function prescient.trace_entry(what text, slot timestamptz)
returns text
language sql
stable
as $$
    select json_strip_nulls(json_build_object(
        'what', what,
        'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
        'slot', extract(epoch from slot)::bigint,
        -- The caller's role, also in a function that runs with the owner's rights.
        'by', coalesce(nullif(current_setting('role'), 'none'), session_user),
        'app', nullif(current_setting('application_name'), ''),
        'actor', left(nullif(current_setting('prescient_trace.actor', true), ''), 200)
    ))::text
$$;
