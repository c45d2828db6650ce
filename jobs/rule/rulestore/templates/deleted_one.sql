-- Rule {rule}: a row that was deleted waits no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
-- What a row says: version {version}.
declare
    old_row {type};
begin
    {take_old}
    perform prescient.cancel_keys({name}, {entity}, array[r.key], {clock})
    from {row}(old_row) as r;
    return null;
end
{quote};
