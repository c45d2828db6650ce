-- Lets rows of a rule be looked at in the next slot, because another table has changed that the rule looks up. A check that
-- waits keeps what its payload says. For a row that does not wait, and with starts also for others, the payload says that
-- the row has come: the check decides about the steps that have passed. starts: the other table may start the clock.
-- Called by the triggers of rules.
create or replace function prescient.rule_look(
    job_exec    text,
    entity_name text,
    entity_keys text[],
    starts      boolean,
    clock       timestamptz default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    came   timestamptz := coalesce(clock, transaction_timestamp());
    keys   text[] := array(select k.entity_key from unnest(entity_keys) as k (entity_key) where octet_length(k.entity_key) between 1 and 500);
    passed timestamptz := came - interval '1 microsecond'; -- so that the row has come
begin
    if keys = '{}' then
        return;
    elsif cardinality(keys) > 1 then
        perform prescient.rule_wait_many(
            rule_look.job_exec, rule_look.entity_name, keys, array_fill(passed, array[cardinality(keys)]), rule_look.clock, came,
            again => true, stays => not starts
        );
        return;
    end if;
    perform prescient.rule_wait(
        rule_look.job_exec, rule_look.entity_name, keys[1], passed, null, rule_look.clock, came, again => true, stays => not starts
    );
end
$$;
revoke all on function prescient.rule_look(text, text, text[], boolean, timestamptz) from public;
