-- Rule {rule}: the rows that a statement has inserted wait for their first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
{trigger_settings}
as {quote}
#variable_conflict use_column
-- What a row says: version {version}.
<<here>>
declare
    new_row {type};
    clock timestamptz := {clock};
    now   timestamptz := coalesce(clock, clock_timestamp());
    came  timestamptz := coalesce(clock, transaction_timestamp());
    keys  text[];
    ats   timestamptz[];
    every_key text[]; -- whose columns have changed
    paused_key text[]; -- of rows that are paused
    n     integer;
    alike boolean; -- null: the statement has written no row
begin
    begin
        -- First, and not in the query below: the server may run a cast when it plans one. Here the columns have no table in
        -- front of them, which could also mean a function of the row.
        alike := (select {inserted_alike} from (select {reads} from prescient_inserted limit 1) as prescient_row);
        if alike is null then
            return null;
        elsif not alike then
            raise datatype_mismatch;
        end if;
        select
            array_agg(r.key) filter (where r.about and not r.done and r.first is not null),
            array_agg(greatest({first}, timestamptz '{since_first}')) filter (where r.about and not r.done and r.first is not null),
            {every}, {paused_keys}
        into keys, ats, every_key, paused_key
        from prescient_inserted as prescient_row, {row}(row({inserted_columns})::{type}, here.now) as r;
    exception
        when others or assert_failure then
            select
                array_agg(r.key) filter (where r.about and not r.done and r.first is not null),
                array_agg(greatest({first}, timestamptz '{since_first}')) filter (where r.about and not r.done and r.first is not null),
                {every}, {paused_keys}
            into keys, ats, every_key, paused_key
            from prescient_inserted as prescient_row, {safe}(prescient_row.*, here.now) as r;
    end;
    if every_key is not null then
        perform prescient.rule_mark({name}, every_key, came);
    end if;
    if paused_key is not null then
        perform prescient.rule_mark({name}, paused_key, came, {marks}, true);
    end if;
    n := coalesce(cardinality(keys), 0);
    if n = 1 then
        perform prescient.rule_wait({name}, {entity}, keys[1], ats[1], clock => clock, came => came, fresh => true);
    elsif n > 1 then
        perform prescient.rule_wait_many({name}, {entity}, keys, ats, clock, came);
    end if;
    return null;
end
{quote};
