-- Rule {rule}: the rows that a statement has inserted wait for their first step.
create or replace function {insert}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
#variable_conflict use_column
declare
    clock timestamptz := {clock};
    keys  text[];
    ats   timestamptz[];
    n     integer;
begin
    select array_agg(i.prescient_key), array_agg(i.prescient_at)
    into keys, ats
    from (
        select {key}::text as prescient_key, {since} + {first} as prescient_at
        from prescient_inserted
        where {about} and {done} is not true
    ) as i;
    n := coalesce(cardinality(keys), 0);
    if n = 1 then
        perform prescient.rule_wait({name}, {entity}, keys[1], ats[1], clock => clock);
    elsif n > 1 then
        perform prescient.rule_wait_many({name}, {entity}, keys, ats, clock);
    end if;
    return null;
end
{quote};
