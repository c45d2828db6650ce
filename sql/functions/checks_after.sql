-- Returns the check_count of a row after what a run did to it: the outcome with which the row ended,
-- or how it was moved (next, retry, defer). A check without an error counts. It is in SQL, as
-- errors_after and microseconds, so that the planner makes it a part of the statement that uses it.
-- Called by everything that records outcomes.
create or replace function prescient.checks_after(check_count integer, what text)
returns integer
language sql
immutable
parallel safe
as $$
    select case when what in ('next', 'done', 'max_checks', 'horizon', 'past') then check_count + 1 else check_count end
$$;
