-- The number of slots from first on, which is at or after an instant, that are before `within` seconds after it; at least 1.
create or replace function prescient.window_slots(first timestamptz, at timestamptz, within integer, width interval)
returns bigint
language sql
stable
parallel safe
as $$
    select greatest(ceil((within - date_part('epoch', first - at)) / date_part('epoch', width))::bigint, 1)
$$;
