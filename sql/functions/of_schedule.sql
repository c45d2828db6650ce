-- Tells whether a check is one that a schedule enqueues at an instant, by its key: entity_key is the id of the schedule,
-- and item_key that of the event, which begins with it. The next ones can be foreseen.
create or replace function prescient.of_schedule(entity_name text, entity_key text, item_key text)
returns boolean
language sql
immutable
parallel safe
as $$
    select entity_name = 'schedule' and starts_with(item_key, entity_key || '-')
$$;
