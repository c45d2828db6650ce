-- Returns the number of slots from first on that are before `within` seconds after an instant; at least 1. first is the
-- first slot at or after the instant.
create or replace function prescient.window_slots(first timestamptz, at timestamptz, within integer, width interval)
returns bigint
language sql
stable
parallel safe
as $$
    select greatest(ceil((within - date_part('epoch', first - at)) / date_part('epoch', width))::bigint, 1)
$$;
