-- Lets rows of a rule be looked at in the next slot, because another table has changed that the rule looks up. A check that
-- waits keeps what its payload says. For a row that does not wait, and with starts also for others, the payload says that
-- the row has come: the check decides about the steps that have passed. starts: the other table may start the clock.
-- In the order of the keys, so that it never deadlocks with rule_wait_many.
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
    number   bigint := prescient.find_rule(job_exec);
    came     timestamptz := coalesce(clock, transaction_timestamp());
    look_key text;
begin
    if number is null then
        return;
    end if;
    for look_key in
        select k.entity_key
        from unnest(entity_keys) as k (entity_key)
        where octet_length(k.entity_key) between 1 and 500
        order by k.entity_key collate "C"
    loop
        perform prescient.rule_wait(
            rule_look.job_exec, rule_look.entity_name, look_key, came - interval '1 microsecond', null, rule_look.clock,
            case
                when starts
                    or not exists (
                        select
                        from prescient.future_job f
                        where f.entity_name = rule_look.entity_name
                            and f.entity_key = look_key
                            and f.job = number
                            and f.item_key = ''
                    )
                then came
            end,
            again => true
        );
    end loop;
end
$$;
revoke all on function prescient.rule_look(text, text, text[], boolean, timestamptz) from public;
