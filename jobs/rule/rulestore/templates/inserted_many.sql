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
    clock  timestamptz := {clock};
    keys   text[];
    ats    timestamptz[];
    n      integer;
    waited bigint; -- how many keys waited before
    made   record;
begin
    select array_agg(i.prescient_key), array_agg(i.prescient_at)
    into keys, ats
    from (
        select {key}::text as prescient_key, {since} + {first} as prescient_at
        from prescient_inserted
        where {about} and {done} is not true
    ) as i;
    n := coalesce(cardinality(keys), 0);
    if n = 0 then
        return null;
    elsif n = 1 then
        made := prescient.enqueue({name}, {entity}, keys[1], ats[1], on_conflict => 'replace', clock => clock);
        return null;
    end if;
    select e.kept + e.recorded
    into waited
    from prescient.enqueue_many(
        array_fill({name}::text, array[n]), array_fill({entity}::text, array[n]), keys, ats, array_fill(null::text, array[n]),
        array_fill(''::text, array[n]), array_fill(null::text, array[n]), clock => clock
    ) as e;
    if waited > 0 then
        -- Some keys wait already, such as those of rows that a truncate has removed.
        perform prescient.enqueue({name}, {entity}, g.key, g.at, on_conflict => 'replace', clock => clock)
        from unnest(keys, ats) as g (key, at)
        join prescient.future_job f
            on f.entity_name = {entity} and f.entity_key = g.key and f.job = (select prescient.find_job({name})) and f.item_key = ''
        where coalesce(f.requested_for, f.first_check_at) <> g.at or f.payload is not null;
    end if;
    return null;
end
{quote};
