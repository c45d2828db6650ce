-- "It happened again": moves a waiting check later, never earlier, and with a cap no later than that long after its
-- first slot (days and months of a cap are those of UTC). One that lands in the slot it is in writes nothing, and at
-- the cap it is checked. A check whose slot has begun stays there: the call is recorded on it, with its own payload, as
-- enqueue does. within: see enqueue. Returns the slot that the check waits for; null: no such check.
create or replace function prescient.push_back(
    job_exec    text,
    entity_name text,
    entity_key  text,
    check_at    timestamptz,
    cap         interval default null,
    item_key    text default '',
    clock       timestamptz default null,
    within      interval default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    waiting record;
    target  timestamptz;
    seconds integer := prescient.within_seconds(within);
begin
    if push_back.job_exec = 'schedule' then
        perform prescient.require_schedules();
    end if;
    if check_at is null then
        raise exception 'check_at is null' using errcode = 'null_value_not_allowed';
    end if;
    if seconds not between 1 and 31622400 then
        raise exception 'within is %; it must be from 0 to 366 days', within
            using errcode = 'check_violation', constraint = 'future_job_within', table = 'future_job';
    end if;
    perform from prescient.future_job where false;
    select
        f.next_check_at, f.job, f.id, f.payload, f.group_key,
        prescient.slot_floor((f.first_check_at at time zone 'UTC' + cap) at time zone 'UTC', s.width) as latest
    into waiting
    from prescient.future_job f, prescient.setting s
    where f.entity_name = push_back.entity_name
        and f.entity_key = push_back.entity_key
        and f.job = prescient.number_of(push_back.job_exec)
        and f.item_key = push_back.item_key
    for update of f;
    if not found then
        return null;
    end if;
    -- Asked for when the row is locked: its lock may have been waited for over a boundary.
    if waiting.next_check_at <= coalesce(clock, clock_timestamp()) then
        if push_back.job_exec <> 'schedule' then -- the publication of that is what the slot is for
            perform prescient.record_request(
                waiting.next_check_at, waiting.job, waiting.id,
                prescient.make_request(check_at, seconds, waiting.payload, waiting.group_key, 'push_back', cap)
            );
        end if;
        return waiting.next_check_at;
    end if;
    target := least(
        prescient.slot_target(check_at, clock, seconds, prescient.place_key(job_exec, entity_name, entity_key, item_key)),
        waiting.latest
    );
    if waiting.next_check_at >= target then
        return waiting.next_check_at;
    end if;
    update prescient.future_job f
    set next_check_at = target,
        trace = prescient.traced(f.trace, prescient.trace_entry('pushed_back', waiting.next_check_at))
    where f.next_check_at = waiting.next_check_at
        and f.job = waiting.job
        and f.id = waiting.id;
    if not found then -- it is locked
        perform prescient.raise_suppressed('the update of the waiting row');
    end if;
    return target;
end
$$;
revoke all on function prescient.push_back(text, text, text, timestamptz, interval, text, timestamptz, interval) from public;
