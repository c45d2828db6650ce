-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    keys text[] := (select array_agg(r.key) from prescient_deleted as prescient_row, {row}(prescient_row.*) as r);
begin
    perform prescient.cancel_keys({name}, {entity}, keys, {clock});
    return null;
end
{quote};
