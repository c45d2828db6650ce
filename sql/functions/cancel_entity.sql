-- Cancels all checks of an entity that have a key, but those of schedules and rules. Returns their
-- number. A null is an error, as in cancel.
create or replace function prescient.cancel_entity(entity_name text, entity_key text)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select case
        when (entity_name, entity_key) is not null
            then prescient.end_checks('cancelled', entity_name, entity_key)
        else (prescient.require_given('', entity_name, entity_key, timestamptz 'epoch', null, null) is null)::integer -- always an error
    end
$$;
revoke all on function prescient.cancel_entity(text, text) from public;
