-- Returns an entry of the journal of a row. The journal tells what has happened to the row since it was
-- enqueued, oldest first: a line of JSON for each check that did not end it, and for each change.
-- A change by a caller is an object: what (rescheduled, pushed_back, recorded, honoured, width,
-- retried, moved, renamed, acked, cancelled, replaced), at in milliseconds, slot (the one that the row was in) in
-- seconds since 1970, by, app and actor; of moved, the stores from and to; of renamed, the key
-- from, and of cancelled the key to, if the key was changed; of recorded, for is the
-- requested instant, in seconds since 1970; of acked, because is why. honoured is the first entry of a row that came of a
-- request: slot is that of the row that had the request, and by the runner.
-- A change by a run is an array, which is shorter: what (next, retry, deferred), slot, run, and of
-- a check its lateness in milliseconds, its run time in microseconds and its error; if nothing was
-- checked, when. A check without an error that asked for another one leaves 12 characters instead;
-- see journal_check.
-- A function in SQL that calls the clock and is stable is not inlined. It is parsed again in each transaction, for four
-- times the cost of this one.
create or replace function prescient.journal_entry(what text, slot timestamptz)
returns text
language plpgsql
stable
as $$
begin
    return json_strip_nulls(json_build_object(
        'what', what,
        'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
        'slot', extract(epoch from slot)::bigint,
        -- The role of the caller, also in a function that runs with the owner's rights.
        'by', coalesce(nullif(current_setting('role'), 'none'), session_user),
        'app', nullif(current_setting('application_name'), ''),
        'actor', left(nullif(current_setting('prescient_caller.actor', true), ''), 200)
    ))::text;
end
$$;
