-- Rule {rule}: the rows that a statement has inserted wait for their first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
-- What a row says: version {version}.
declare
    clock timestamptz := {clock};
    keys  text[];
    ats   timestamptz[];
    n     integer;
begin
    select array_agg(r.key), array_agg(r.since + {first})
    into keys, ats
    from prescient_inserted as prescient_row, {row}(prescient_row.*) as r
    where r.counts;
    n := coalesce(cardinality(keys), 0);
    if n = 1 then
        perform prescient.rule_wait({name}, {entity}, keys[1], ats[1], clock => clock);
    elsif n > 1 then
        perform prescient.rule_wait_many({name}, {entity}, keys, ats, clock);
    end if;
    return null;
end
{quote};
