-- Rule {rule}: a row waits as its new values say. The trigger calls the function only if a column that the rule reads has
-- changed.
create or replace function {update}()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set standard_conforming_strings = on
as {quote}
#variable_conflict use_column
declare
    clock     timestamptz := {clock};
    now       timestamptz := coalesce(clock, clock_timestamp());
    old_key   text;
    new_key   text;
    old_since timestamptz;
    new_since timestamptz;
    counted   boolean; -- whether the row waited for something
    counts    boolean; -- whether it does now
    due       timestamptz;
begin
    select {key}::text, {since}, {about} and {done} is not true
    into old_key, old_since, counted
    from (select old.*) as prescient_old;
    select {key}::text, {since}, {about} and {done} is not true
    into new_key, new_since, counts
    from (select new.*) as prescient_new;

    if old_key <> new_key then
        perform prescient.cancel_keys({name}, {entity}, array[old_key], clock);
    end if;
    if counts and (old_key <> new_key or old_since is distinct from new_since) then
        perform prescient.rule_wait({name}, {entity}, new_key, new_since + {first}, clock => clock);
    elsif counts and counted is not true then
        -- It begins to count again: only the steps that are still to come will fire. A check that waits since
        -- before gets the instant, too, because it would also fire the steps that have passed meanwhile.
        due := least({coming});
        if due is not null then
            perform prescient.rule_wait(
                {name}, {entity}, new_key, due,
                jsonb_build_object('from', to_char(now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')), clock
            );
        end if;
    elsif counts is not true and ({at_once} or (new_since >= timestamptz '{since_first}' and new_since < timestamptz '{since_last}') is not true) then
        perform prescient.cancel_keys({name}, {entity}, array[new_key], clock);
    end if;
    return null;
end
{quote};
