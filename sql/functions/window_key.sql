-- Returns the text of a key of future_job for window_hash. A null item_key, of an anonymous row, counts as ''.
create or replace function prescient.window_key(job_exec text, entity_name text, entity_key text, item_key text)
returns text
language sql
immutable
parallel safe
as $$
    select job_exec || chr(31) || entity_name || chr(31) || entity_key || chr(31) || coalesce(item_key, '')
$$;
