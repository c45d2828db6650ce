-- Ends a waiting check by its key. Returns whether there was one.
create or replace function prescient.cancel(job_exec text, entity_name text, entity_key text, item_key text default '')
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select prescient.end_by_key('cancelled', entity_name, entity_key, job_exec, item_key) > 0
$$;
revoke all on function prescient.cancel(text, text, text, text) from public;
