-- Returns the slot of a check that may wait for any slot of a window. The window begins at first,
-- the first slot at or after an instant, and ends before `within` seconds after that instant. A
-- null within returns first. The hash decides which slot it is. If that slot is before earliest,
-- the hash chooses among the slots of the window from earliest on, or it is earliest. Grid.PickSlot of
-- package slots/grid returns the same. It is stable and a single expression, so the planner makes
-- it a part of the statement that uses it. A call would cost more than the rest of that statement.
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
