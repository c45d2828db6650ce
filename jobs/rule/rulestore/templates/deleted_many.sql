-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    keys text[] := (select array_agg({key_of}(prescient_row.*)) from prescient_deleted as prescient_row);
begin
    perform prescient.cancel_keys({name}, {entity}, keys, {clock});
    return null;
end
{quote};
