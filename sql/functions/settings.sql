-- Returns the settings, for roles that may execute functions and read no table. functions: the hash
-- of the functions in the schema, see migrate up. functions_at: when they were applied.
create or replace function prescient.settings()
returns table (
    width          interval,
    since          timestamptz,
    schema_version integer,
    min_code_version    integer,
    functions      text,
    functions_at   timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
    select s.width, s.since, s.schema_version, s.min_code_version, s.functions, s.functions_at
    from prescient.setting s
$$;
revoke all on function prescient.settings() from public;
