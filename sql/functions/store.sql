-- Returns which store this is, and whether it is being drained. Applications may call it.
create or replace function prescient.store()
returns table (store text, draining_since timestamptz, draining_by text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select s.store::text, s.draining_since, s.draining_by
    from prescient.setting s
$$;
revoke all on function prescient.store() from public;
