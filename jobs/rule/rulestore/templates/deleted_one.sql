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
begin
    {take_old}
    perform prescient.cancel_keys({name}, {entity}, array[{key_of}(old_row)], {clock});
    return null;
end
{quote};
