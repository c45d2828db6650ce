-- "It happened again": moves a waiting check later, never earlier. With max_wait it moves the check
-- at most that long after its first slot, and the check then runs there. Days and months of max_wait
-- are those of UTC. A row that stays in its slot is not written.
-- A check whose slot has begun stays there: the call is recorded on it, with its own payload, as
-- enqueue does. within: see enqueue. Returns the slot that the check waits for, or null if there is
-- no such check.
create or replace function prescient.push_back(
    job_exec    text,
    entity_name text,
    entity_key  text,
    item_key    text default '',
    check_at    timestamptz default null,
    max_wait    interval default null,
    within      interval default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set row_security = off
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    clock   timestamptz := nullif(current_setting('prescient_caller.clock', true), '')::timestamptz;
    seconds integer := prescient.within_seconds(within);
begin
    perform prescient.require_rights(push_back.job_exec, prescient.of_schedule(entity_name, entity_key, item_key));
    if clock is not null then
        perform prescient.require_runner(clock);
    end if;
    if num_nulls(job_exec, entity_name, entity_key, check_at) > 0
        or not prescient.wait_fits(max_wait)
        or check_at > coalesce(clock, clock_timestamp()) + interval '100 years'
    then
        perform prescient.require_given(job_exec, entity_name, entity_key, check_at, max_wait, clock);
    end if;
    check_at := greatest(check_at, timestamptz '1970-01-01 00:00:00+00'); -- as enqueue
    if seconds not between 1 and 31622400 then
        raise exception 'within is %; it must be from 0 to 366 days', within
            using errcode = 'check_violation', constraint = 'future_job_within', table = 'future_job';
    end if;
    perform from prescient.future_job where false;
    return prescient.push_back_row(
        prescient.find_job(job_exec), job_exec, entity_name, entity_key, item_key, check_at, max_wait, seconds, clock
    );
end
$$;
revoke all on function prescient.push_back(text, text, text, text, timestamptz, interval, interval) from public;
