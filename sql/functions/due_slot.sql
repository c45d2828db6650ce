-- Returns the slot of a check for an instant: never before the instant, and never a slot that has
-- begun. With within, in seconds, it is the slot that pick_slot chooses for the key.
-- It takes the number of its transaction before it asks the clock. So the runner that opens the
-- chosen slot has a higher number, and knows from it which transactions may still bring rows into
-- the slot; see open_slot. It asks the clock itself, where the number was taken: a query asks it
-- where the setting is, which on Citus is another server.
-- It is in PL/pgSQL, which keeps the plan: each enqueue would plan an SQL function again, which is a
-- third of the cost of an enqueue.
create or replace function prescient.due_slot(
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
    hash := prescient.window_hash(key);
    return prescient.pick_slot(first, at, within, earliest, width, hash);
end
$$;
