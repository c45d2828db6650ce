-- Returns whether a consumer gets the events of a type. One of all types (types is null) gets no messages to receivers if
-- it is a destination, which has an address. The prefix of messages is written in two parts, because "prescient." stands
-- for the schema here. Package jobs/event/forward decides the same for what it sends.
create or replace function prescient.gets_event(address text, types text[], type text)
returns boolean
language sql
immutable
as $$
    select types is null and (address is null or type not like 'prescient' || '.notify.%') or type like any (types)
$$;
