-- The slot of a check where any will do from first, the first one at or after an instant, up to, but not including,
-- `within` seconds after that; null: first alone. Which of them follows from the hash. Where it is before earliest, it is one of
-- those that are left, or earliest. Grid.Place of package slots/grid returns the same.
-- Stable, and no more than an expression, so that it is a part of the statement that uses it: a call would cost more
-- than all the rest.
create or replace function prescient.pick_slot(
    first    timestamptz,
    at       timestamptz,
    within   integer,
    earliest timestamptz,
    width    interval,
    hash     bigint
)
returns timestamptz
language sql
stable
parallel safe
as $$
    select case
        when within is null then greatest(first, earliest)
        when first >= earliest or first + hash % prescient.window_slots(first, at, within, width) * width >= earliest
            then first + hash % prescient.window_slots(first, at, within, width) * width
        else earliest + hash / prescient.window_slots(first, at, within, width) % greatest(
            prescient.window_slots(first, at, within, width) - (date_part('epoch', earliest - first) / date_part('epoch', width))::bigint, 1
        ) * width
    end
$$;
