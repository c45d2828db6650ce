-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare
    known {type};
    keys  text[];
begin
    begin
        keys := (
            select array_agg(prescient_row.{column}::text)
            from (
                select prescient_row.{column}
                from prescient_deleted as prescient_row
                where pg_typeof(prescient_row.{column}) = pg_typeof(known.{column})
                offset 0
            ) as prescient_row
        );
        if keys is null and exists (select from prescient_deleted) then
            raise datatype_mismatch;
        end if;
    exception
        when others or assert_failure then -- it was renamed
            keys := (select array_agg(r.key) from prescient_deleted as prescient_row, {safe}(prescient_row.*, null) as r);
    end;
    perform prescient.cancel_keys({name}, {entity}, keys, {clock});
    return null;
end
{quote};
