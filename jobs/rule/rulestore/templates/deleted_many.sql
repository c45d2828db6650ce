-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
begin
    perform prescient.cancel_keys({name}, {entity}, (select array_agg({key}::text) from prescient_deleted), {clock});
    return null;
end
{quote};
