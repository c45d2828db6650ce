-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    keys text[];
begin
    begin
        keys := (select array_agg(prescient_row.{column}::text) from prescient_deleted as prescient_row);
    exception
        when undefined_column then -- it was renamed
            keys := (select array_agg(r.key) from prescient_deleted as prescient_row, {safe}(prescient_row.*, null) as r);
    end;
    perform prescient.cancel_keys({name}, {entity}, keys, {clock});
    return null;
end
{quote};
