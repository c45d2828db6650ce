-- Rule {rule}: a row that was deleted waits no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    old_row {type};
    key     text;
begin
    {take_old}
    begin
        key := old_row.{column}::text;
    exception
        when undefined_column then -- it was renamed
            key := (select r.key from {safe}(old_row, null) as r);
    end;
    perform prescient.cancel_keys({name}, {entity}, array[key], {clock});
    return null;
end
{quote};
