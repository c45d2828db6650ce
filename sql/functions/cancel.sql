-- Ends a waiting check by its key. Returns whether there was one. A key with a null in it finds no check.
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
        else false
    end
$$;
revoke all on function prescient.cancel(text, text, text, text) from public;
