-- Returns so many microseconds as an interval.
create or replace function prescient.microseconds(n bigint)
returns interval
language sql
immutable
parallel safe
as $$
    select n::double precision * interval '1 microsecond'
$$;
