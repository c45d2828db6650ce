-- Lets a row of a rule that counts again wait for the first of some instants, those of its steps. A
-- step whose slot has begun has passed, and does not fire. The slot of a later one is still to come,
-- although the instant may lie before now. Without such an instant the function does nothing. A check
-- that waits since before gets the instant, too, because it would also fire the steps that have passed
-- meanwhile.
-- again: the row has counted before, so a check that waits keeps what its payload says about steps.
-- looked_at: when the trigger read the clock. A slot that has begun since then has not passed: the row counted before it
-- began, and is looked at in the next one.
-- Called by the triggers of rules.
create or replace function prescient.rule_resume(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_ats   timestamptz[],
    clock       timestamptz default null,
    again       boolean default false,
    looked_at   timestamptz default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
as $$
#variable_conflict use_column
declare
    passed timestamptz := prescient.slot_floor(
        coalesce(looked_at, clock, clock_timestamp()),
        (select width from prescient.setting)
    );
    due    timestamptz := (select min(u.check_at) from unnest(check_ats) as u (check_at) where u.check_at > passed);
begin
    if due is null then
        return;
    end if;
    perform prescient.rule_wait(
        rule_resume.job_exec, rule_resume.entity_name, rule_resume.entity_key, due,
        jsonb_build_object(
            'from', to_char((passed + interval '1 microsecond') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
        ),
        clock, again => again
    );
end
$$;
revoke all on function prescient.rule_resume(text, text, text, timestamptz[], timestamptz, boolean, timestamptz) from public;
