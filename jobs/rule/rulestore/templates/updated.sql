-- Rule {rule}: a row waits as its new values say. The trigger calls the function only if a column that the rule reads has
-- changed.
create or replace function {update}()
returns trigger
language plpgsql
security definer
{settings}
as {quote}
-- What a row says: version {version}.
declare{declare_rows}
    clock     timestamptz := {clock};
    now       timestamptz := coalesce(clock, clock_timestamp());
    old_key   text;
    new_key   text;
    old_since timestamptz;
    new_since timestamptz;
    counted   boolean; -- whether the row waited for something
    counts    boolean; -- whether it does now
begin{take_rows}
    select r.key, r.since, r.counts and (r.done_at <= now) is not true
    into old_key, old_since, counted
    from {row}({old}) as r;
    select r.key, r.since, r.counts and (r.done_at <= now) is not true
    into new_key, new_since, counts
    from {row}({new}) as r;

    if old_key <> new_key then
        perform prescient.cancel_keys({name}, {entity}, array[old_key], clock);
    end if;
    if counts and (old_key <> new_key or old_since is distinct from new_since) then
        perform prescient.rule_wait({name}, {entity}, new_key, new_since + {first}, clock => clock);
    elsif counts and counted is not true then
        perform prescient.rule_resume({name}, {entity}, new_key, array[{coming}], clock);
    elsif counts is not true and ({at_once} or (new_since >= timestamptz '{since_first}' and new_since < timestamptz '{since_last}') is not true) then
        perform prescient.cancel_keys({name}, {entity}, array[new_key], clock);
    end if;
    return null;
end
{quote};
