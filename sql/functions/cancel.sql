-- Ends a waiting check by its key. Returns whether there was one. A null item_key finds no check, because anonymous
-- checks have no key. Another null is an error, as in enqueue: it is a mistake of the caller.
create or replace function prescient.cancel(job_exec text, entity_name text, entity_key text, item_key text default '')
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select case
        when (job_exec, entity_name, entity_key, item_key) is not null
            then prescient.end_check('cancelled', entity_name, entity_key, job_exec, item_key)
        -- An error, or false if only item_key is null.
        else prescient.require_given(job_exec, entity_name, entity_key, timestamptz 'epoch', null, null) is null
    end
$$;
revoke all on function prescient.cancel(text, text, text, text) from public;
