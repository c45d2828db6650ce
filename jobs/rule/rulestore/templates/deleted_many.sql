-- Rule {rule}: the rows that a statement has deleted wait no longer.
create or replace function {delete}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as {quote}
begin
    perform prescient.cancel({name}, {entity}, d.prescient_key)
    from (
        select {key}::text as prescient_key
        from prescient_deleted
        order by prescient_key
        offset 0
    ) as d;
    return null;
end
{quote};
