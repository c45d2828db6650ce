-- Rule {rule}: the rows that a statement has inserted wait for their first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
#variable_conflict use_variable
-- What a row says: version {version}. A column of the table may be called now, too.
declare
    new_row {type};
    clock timestamptz := {clock};
    now   timestamptz := coalesce(clock, clock_timestamp());
    came  timestamptz := coalesce(clock, transaction_timestamp());
    keys  text[];
    ats   timestamptz[];
    n     integer;
begin
    begin
        select array_agg(r.key), array_agg(greatest(r.first, timestamptz '{since_first}'))
        into keys, ats
        from (
            select {inserted_columns}
            from prescient_inserted as prescient_row
            where {inserted_alike}
            offset 0
        ) as prescient_row, {row}(row({inserted_columns})::{type}, now) as r
        where r.about and not r.done and r.first is not null;
        if keys is null and exists (select from prescient_inserted as prescient_row where not ({inserted_alike})) then
            raise datatype_mismatch;
        end if;
    exception
        when others or assert_failure then
            select array_agg(r.key), array_agg(greatest(r.first, timestamptz '{since_first}'))
            into keys, ats
            from prescient_inserted as prescient_row, {safe}(prescient_row.*, now) as r
            where r.about and not r.done and r.first is not null;
    end;
    n := coalesce(cardinality(keys), 0);
    if n = 1 then
        perform prescient.rule_wait({name}, {entity}, keys[1], ats[1], clock => clock, came => came);
    elsif n > 1 then
        perform prescient.rule_wait_many({name}, {entity}, keys, ats, clock, came);
    end if;
    return null;
end
{quote};
