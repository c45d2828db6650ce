-- Returns the error_count of a row after what a run did to it; see checks_after. An error counts. A
-- check without an error that moves the row sets the count to 0.
-- Called by everything that records outcomes.
create or replace function prescient.errors_after(error_count integer, what text)
returns integer
language sql
immutable
parallel safe
as $$
    select case when what in ('retry', 'failed') then error_count + 1 when what = 'next' then 0 else error_count end
$$;
