-- Returns the last slot at or before an instant. The grid starts at the Unix epoch. Every width
-- divides 24 hours, so every grid contains every midnight UTC.
-- Adding an interval is not immutable in general (days and months depend on the time zone). A
-- function that claims to be immutable would be called for each row; a stable one is a part of the
-- statement that uses it.
create or replace function prescient.slot_floor(at timestamptz, width interval)
returns timestamptz
language sql
immutable
strict
parallel safe
as $$
    select date_bin(width, at, timestamptz '1970-01-01 00:00:00+00')
$$;
