-- Returns the first slot at or after an instant. The grid starts at the Unix epoch. Every width
-- divides 24 hours, so every grid contains every midnight UTC.
-- It is stable although the result depends only on the arguments: adding an interval is not
-- immutable in general, and a stable function becomes a part of the statement that uses it instead
-- of a call for each row.
create or replace function prescient.slot_ceil(at timestamptz, width interval)
returns timestamptz
language sql
stable
strict
parallel safe
as $$
    -- In seconds, because a day of an interval is one of the session's time zone.
    select date_bin(width, at + (date_part('epoch', width) * interval '1 second' - interval '1 microsecond'), timestamptz '1970-01-01 00:00:00+00')
$$;

-- The same for the width of the database.
create or replace function prescient.slot_ceil(at timestamptz)
returns timestamptz
language sql
stable
strict
parallel safe
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select prescient.slot_ceil(at, width)
    from prescient.setting
$$;
revoke all on function prescient.slot_ceil(timestamptz) from public;
