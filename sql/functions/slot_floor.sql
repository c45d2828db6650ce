-- Returns the last slot at or before an instant. The grid starts at the Unix epoch. Every width
-- divides 24 hours, so every grid contains every midnight UTC.
-- It is immutable like date_bin, so it becomes a part of the statement that uses it instead of a call
-- for each row. slot_ceil also adds an interval, and is stable.
create or replace function prescient.slot_floor(at timestamptz, width interval)
returns timestamptz
language sql
immutable
strict
parallel safe
as $$
    select date_bin(width, at, timestamptz '1970-01-01 00:00:00+00')
$$;
