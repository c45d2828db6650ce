-- The slot a check asked for at an instant goes to: never before the instant, and never a slot that has begun. With
-- within, in seconds, it is the one that place gives a key.
-- It takes the number of its transaction before it asks the clock. So whoever opens the slot it chooses has a higher
-- number, and knows from that which transactions may still bring rows into it; see open_slot.
-- The clock is asked here, where the number was taken, and not where a query finds the setting: on Citus that is another server.
-- In PL/pgSQL, which keeps the plan: an SQL function is planned anew by each enqueue, at a third of its cost.
create or replace function prescient.slot_target(
    at     timestamptz,
    clock  timestamptz default null,
    within integer default null,
    key    text default null
)
returns timestamptz
language plpgsql
volatile
as $$
#variable_conflict use_column
declare
    width    interval;
    first    timestamptz;
    earliest timestamptz;
    hash     bigint;
begin
    perform pg_current_xact_id();
    clock := coalesce(clock, clock_timestamp());
    if within is null then
        return (
            select greatest(prescient.slot_ceil(at, width), prescient.slot_floor(clock, width) + width)
            from prescient.setting
        );
    end if;
    select s.width into width from prescient.setting s;
    first := prescient.slot_ceil(at, width);
    earliest := prescient.slot_floor(clock, width) + width;
    hash := prescient.place_hash(key);
    return prescient.place(first, at, within, earliest, width, hash);
end
$$;
