-- Rule {rule}: a row that was deleted waits no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
begin
    perform prescient.cancel_keys({name}, {entity}, array[old.{key}::text], {clock});
    return null;
end
{quote};
